"""launch, logs, stop, resume and scale with the real kubectl, at a stand-in for Kubernetes' API."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from ps_cluster.job.load import check_document
from ps_cluster.job.yaml_text import parse
from tests.k8s.api_server import Cluster, serving
from tests.ps_cluster.kubernetes.jobs import PLAIN, written

ROOT = Path(__file__).resolve().parents[3]
LIMIT_SECONDS = 240

needs_kubectl = pytest.mark.skipif(shutil.which("kubectl") is None, reason="no kubectl")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with serving(tmp_path) as (one, _):
        yield one


def environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "KUBECONFIG": str(folder / "kubeconfig"), "HOME": str(folder), "PYTHONPATH": str(ROOT)}


def begun(folder: Path, *args: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "ps_cluster", *args]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL}
    return subprocess.Popen(command, cwd=folder, env=environment(folder), text=True, **pipes)


def ran(folder: Path, *args: str) -> tuple[int, str, str]:
    process = begun(folder, *args)
    out, err = process.communicate(timeout=LIMIT_SECONDS)
    return process.returncode, out, err


def when(condition: Callable[[], bool], then: Callable[[], object]) -> threading.Thread:
    """Does something as soon as something is so."""

    def wait() -> None:
        deadline = time.monotonic() + LIMIT_SECONDS
        while not condition() and time.monotonic() < deadline:
            time.sleep(0.05)
        then()

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    return thread


def job_in(cluster: Cluster) -> dict:
    text = cluster.objects["configmaps", "default", "clicks-job"]["data"]["job.yaml"]
    job = check_document(parse(text), "/job")[0]
    assert job is not None
    return {"ps": job.cluster.ps, "workers": job.cluster.workers, "memory": job.kubernetes.ps.memory}


@needs_kubectl
def test_a_launched_run_is_followed_to_its_end(cluster: Cluster, tmp_path: Path) -> None:
    written(tmp_path)
    cluster.logs["clicks-worker-0-abcde"] = "step 1\nstep 2\n"
    when(
        lambda: "clicks-worker" in cluster.names("jobs"),
        lambda: cluster.end("clicks-worker", "Complete"),
    )
    code, out, err = ran(tmp_path, "launch", "job.yaml")
    assert (code, out) == (0, "step 1\nstep 2\n")
    assert "job.batch/clicks-worker created" in err.splitlines()
    assert cluster.names("networkpolicies") == ["clicks-ps", "clicks-worker"]
    code, out, err = ran(tmp_path, "logs", "clicks", "--index", "0")
    assert (code, out) == (0, "[pod/clicks-worker-0-abcde/worker] step 1\n[pod/clicks-worker-0-abcde/worker] step 2\n")
    # What has ended makes room for a changed job, whose objects Kubernetes itself would refuse.
    written(tmp_path, training={"batch_size": 16})
    code, _, err = ran(tmp_path, "launch", "job.yaml", "--detach")
    assert (code, "configmap/clicks-job created" in err) == (0, True)
    assert ran(tmp_path, "launch", "job.yaml") == (
        2,
        "",
        "clicks: expected no run of this name that goes on, found one (ps-cluster stop clicks)\n",
    )


@needs_kubectl
def test_a_failed_run_says_why_and_lets_its_ps_go(cluster: Cluster, tmp_path: Path) -> None:
    written(tmp_path)
    words = "reading\njob.yaml: data.train: expected files, found none"
    when(
        lambda: "clicks-worker" in cluster.names("jobs"),
        lambda: cluster.end("clicks-worker", "Failed", "PodFailurePolicy", exit_code=2, words=words),
    )
    code, _, err = ran(tmp_path, "launch", "job.yaml")
    assert code == 2
    assert err.splitlines()[-3:] == [
        "clicks: the run has failed: PodFailurePolicy: Job clicks-worker is Failed",
        "clicks-worker-0-abcde ended with status 2: job.yaml: data.train: expected files, found none",
        "clicks-worker-1-abcde ended with status 2: job.yaml: data.train: expected files, found none",
    ]
    assert cluster.names("jobs") == ["clicks-worker"]


@needs_kubectl
def test_a_run_whose_ps_have_failed_for_good_ends_and_says_that_they_had_too_little_memory(
    cluster: Cluster, tmp_path: Path
) -> None:
    written(tmp_path)
    how = {"exit_code": 137, "words": "ps 0 is ready at clicks-ps-0.clicks:2222", "why": "OOMKilled"}
    when(
        lambda: "clicks-worker" in cluster.names("jobs"),
        lambda: cluster.end("clicks-ps", "Failed", "MaxFailedIndexesExceeded", **how),
    )
    code, _, err = ran(tmp_path, "launch", "job.yaml")
    assert code == 1
    asked = "it wanted more memory than its 1Gi; `ps-cluster plan` says how much it needs"
    assert err.splitlines()[-3:] == [
        "clicks: the run has failed: MaxFailedIndexesExceeded: Job clicks-ps is Failed",
        f"clicks-ps-0-abcde ended with status 137: {asked}",
        f"clicks-ps-1-abcde ended with status 137: {asked}",
    ]
    assert cluster.names("jobs") == ["clicks-ps"]


@needs_kubectl
def test_a_run_is_stopped_resumed_and_scaled_by_its_name_alone(cluster: Cluster, tmp_path: Path) -> None:
    written(tmp_path)
    assert ran(tmp_path, "launch", "job.yaml", "--detach")[0] == 0
    (tmp_path / "job.yaml").unlink()
    code, out, _ = ran(tmp_path, "stop", "clicks")
    assert (code, out.startswith("clicks has stopped")) == (0, True)
    assert (cluster.names("jobs"), cluster.names("pods")) == ([], [])
    assert cluster.names("configmaps") == ["clicks-job"]
    assert ran(tmp_path, "resume", "clicks", "--detach")[0] == 0
    assert len(cluster.names("pods")) == 4
    code, _, err = ran(tmp_path, "scale", "clicks", "--ps", "1", "--workers", "3", "--detach")
    assert (code, err.splitlines()[0]) == (0, "clicks: 1 PS of 2Gi, 3 workers")
    assert [name for name in cluster.names("pods") if "-ps-" in name] == ["clicks-ps-0-abcde"]
    assert len(cluster.names("pods")) == 4
    assert job_in(cluster) == {"ps": 1, "workers": 3, "memory": 2 * 2**30}
    cluster.end("clicks-worker", "Complete")
    code, _, err = ran(tmp_path, "resume", "clicks")
    assert (code, err) == (2, "clicks: expected a run that was stopped or has failed, found one that is complete\n")


@needs_kubectl
def test_the_pipe_of_the_readme_applies_waits_and_deletes(cluster: Cluster, tmp_path: Path) -> None:
    kubernetes = {**PLAIN["kubernetes"], "storage": {"size": "5GiB"}}
    written(tmp_path, kubernetes=kubernetes)
    code, text, err = ran(tmp_path, "render", "job.yaml")
    assert (code, err) == (0, "")
    kinds = [one["kind"] for one in yaml.safe_load_all(text)]

    def kubectl(*args: str) -> list[str]:
        command = ["kubectl", *args]
        done = subprocess.run(
            command, input=text, env=environment(tmp_path), capture_output=True, text=True, timeout=LIMIT_SECONDS
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    assert len(kubectl("apply", "-f", "-")) == len(kinds)
    cluster.end("clicks-worker", "Complete")
    waited = kubectl("wait", "--for=condition=complete", "job/clicks-worker", "--timeout=60s")
    assert waited == ["job.batch/clicks-worker condition met"]
    assert len(kubectl("delete", "-f", "-")) == len(kinds)
    assert cluster.objects == {}


@needs_kubectl
def test_what_the_cluster_refuses_is_told_in_a_line(cluster: Cluster, tmp_path: Path) -> None:
    written(tmp_path)
    cluster.refuses = lambda method, path: "no room for you" if (method, path[-4:]) == ("POST", "jobs") else None
    code, out, err = ran(tmp_path, "launch", "job.yaml")
    assert (code, out, len(err.splitlines())) == (1, "", 1)
    assert err.startswith("kubectl apply: ") and "no room for you" in err
    code, out, err = ran(tmp_path, "stop", "others")
    assert (code, out, err) == (2, "", "others: expected the name of a run, found no ConfigMap others-job\n")


def test_without_kubectl_a_line_says_so(tmp_path: Path) -> None:
    written(tmp_path)
    command = [sys.executable, "-m", "ps_cluster", "launch", "job.yaml"]
    told = {**environment(tmp_path), "PATH": str(tmp_path)}
    done = subprocess.run(command, cwd=tmp_path, env=told, capture_output=True, text=True, timeout=LIMIT_SECONDS)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("kubectl: expected the program on PATH, found none")
    assert len(done.stderr.splitlines()) == 1
