"""Random job files for Kubernetes, as text and as loaded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from ps_cluster.job.load import check_document
from ps_cluster.job.resolve import JobFile
from ps_cluster.job.yaml_text import parse

PLAIN: dict[str, Any] = {
    "name": "clicks",
    "data": {"train": ["samples/train-*.orc"], "test": ["samples/test.orc"], "label": "label"},
    "features": [{"name": "user_id", "kind": "id", "dim": 4}, {"name": "price", "kind": "dense"}],
    "model": {"name": "deepfm"},
    "optimizers": {
        "sparse": {"name": "sgd", "learning_rate": 0.1},
        "dense": {"name": "sgd", "learning_rate": 0.1},
    },
    "training": {"batch_size": 8},
    "cluster": {"ps": 2, "workers": 2},
    "output": "run",
    "kubernetes": {"ps": {"memory": "1GiB", "cpu": 1.0}, "worker": {"memory": "2GiB", "cpu": 0.5}},
}

_NAMES = st.from_regex(r"[a-z]([a-z0-9-]{0,38}[a-z0-9])?", fullmatch=True)
_SIZES = st.sampled_from(["1MiB", "1GiB", "1500MiB", "3TiB"]) | st.integers(2**20, 2**44)
_CORES = st.floats(0.001, 512.0)
_LABELS = st.dictionaries(
    st.sampled_from(["pool", "example.com/gpu", "zone"]), st.sampled_from(["", "1e3", "no", "a.b"])
)


def _some(**fields: st.SearchStrategy) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=fields)


_STORED = _some(
    name=_NAMES,
    folder=st.sampled_from(["/storage", "/mnt/data"]),
    size=_SIZES,
    storage_class=_NAMES,
    access=st.sampled_from(["ReadWriteMany", "ReadWriteOnce"]),
)
_KUBERNETES = st.fixed_dictionaries(
    {
        "ps": st.fixed_dictionaries(
            {"memory": _SIZES, "cpu": _CORES}, optional={"kind": st.sampled_from(["Job", "StatefulSet"])}
        ),
        "worker": st.fixed_dictionaries({"memory": _SIZES, "cpu": _CORES}, optional={"gpus": st.integers(0, 8)}),
    },
    optional={
        "image": st.sampled_from(["registry.example.com:5000/a/ps-cluster:1e3", "ps-cluster@sha256:00ff"]),
        "pull_secret": _NAMES,
        "namespace": _NAMES,
        "storage": _STORED,
        "serving": st.fixed_dictionaries({"memory": _SIZES}, optional={"cpu": _CORES, "clients": _LABELS}),
        "evaluator": st.fixed_dictionaries({"memory": _SIZES}),
        "deadline_minutes": st.floats(0.001, 1e6),
        "ttl_minutes": st.floats(0.001, 1e6),
        "retries": st.integers(0, 100),
        "node_selector": _LABELS,
        "tolerations": st.lists(
            _some(key=st.just("gpu"), value=st.just("on"), effect=st.just("NoSchedule")), max_size=2
        ),
        "queue": _NAMES,
        "priority_class": _NAMES,
        "metrics_namespace": _NAMES,
    },
)


@st.composite
def random_jobs(draw: st.DrawFn) -> JobFile:
    """Right job files of all kinds of pods, in a shared volume."""
    ps = draw(st.integers(0, 4))
    values = {
        **PLAIN,
        "name": draw(_NAMES),
        "cluster": {"ps": ps, "workers": draw(st.integers(1, 4)) if ps else 1},
        "checkpoint": draw(_some(grace_seconds=st.floats(0.1, 5000.0), folder=st.just("s3://bucket/clicks"))),
        "metrics": {"serve": draw(st.booleans())},
        "kubernetes": draw(_KUBERNETES),
    }
    return loaded(json.dumps(values))


def loaded(text: str, folder: str = "/home/someone") -> JobFile:
    """A right job file."""
    job, problems = check_document(parse(text), folder)
    assert job is not None, problems
    return JobFile(job=job, path="job.yaml", folder=folder, text=text)


def job_with(**sections: Any) -> JobFile:
    """`PLAIN` with other sections; None leaves one out."""
    values = {name: value for name, value in {**PLAIN, **sections}.items() if value is not None}
    return loaded(json.dumps(values))


def written(folder: Path, **sections: Any) -> Path:
    """`job_with` as a file."""
    path = folder / "job.yaml"
    path.write_text(job_with(**sections).text, encoding="utf-8")
    return path
