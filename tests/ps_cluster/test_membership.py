"""A process finds its place in the cluster, or says what is wrong with what it was told."""

from __future__ import annotations

import argparse
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ps_cluster.errors import UserError
from ps_cluster.job.membership import (
    Membership,
    add_arguments,
    from_flags,
    from_tf_config,
    membership_of,
)
from ps_cluster.job.schema import Cluster

GOOD = {
    "cluster": {"ps": ["p0:1", "p1:1"], "worker": ["w0:2", "w1:2"], "rendezvous": ["w0:3"]},
    "task": {"type": "worker", "index": 1},
}


def parsed(*flags: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return parser.parse_args(flags)


def changed(**parts: object) -> str:
    """GOOD with `cluster_ps=…` and the like set, or taken out with None."""
    config = json.loads(json.dumps(GOOD))
    for path, value in parts.items():
        section, _, key = path.partition("_")
        if value is None:
            del config[section][key]
        else:
            config[section][key] = value
    return json.dumps(config)


def test_tf_config_names_the_place() -> None:
    member = from_tf_config(json.dumps(GOOD), "worker")
    assert member == Membership("worker", 1, ("p0:1", "p1:1"), ("w0:2", "w1:2"), "w0:3")
    assert (member.address, member.port) == ("w1:2", 2)


def test_flags_name_the_place() -> None:
    member = membership_of(parsed("--ps", "p0:1, p1:1", "--workers", "w0:2", "--index", "1"), "ps", environment={})
    assert member == Membership("ps", 1, ("p0:1", "p1:1"), ("w0:2",), None)
    assert member.address == "p1:1"


def test_the_job_files_addresses_name_the_place() -> None:
    cluster = Cluster(
        ps=1,
        workers=2,
        ps_addresses=["p0:1"],
        worker_addresses=["w0:2", "w1:2"],
        rendezvous_address="w0:3",
    )
    member = membership_of(parsed("--index", "1"), "worker", cluster, environment={})
    assert member == Membership("worker", 1, ("p0:1",), ("w0:2", "w1:2"), "w0:3")


def test_the_index_may_come_from_the_flag() -> None:
    """All pods of a Kubernetes job share one TF_CONFIG."""
    environment = {"TF_CONFIG": changed(task_index=None)}
    assert membership_of(parsed("--index", "0"), "worker", environment=environment).index == 0
    environment = {"TF_CONFIG": json.dumps({"cluster": GOOD["cluster"]})}
    assert membership_of(parsed("--index", "1"), "ps", environment=environment).address == "p1:1"


@given(
    st.integers(0, 4),
    st.integers(1, 4),
    st.sampled_from(["ps", "worker"]),
    st.data(),
)
def test_tf_config_says_the_same_back(ps: int, workers: int, role: str, data: st.DataObject) -> None:
    if ps == 0:
        role, workers = "worker", 1
    index = data.draw(st.integers(0, (ps if role == "ps" else workers) - 1))
    member = Membership(
        role,  # type: ignore[arg-type]
        index,
        tuple(f"ps-{i}.svc:{i + 1}" for i in range(ps)),
        tuple(f"worker-{i}:{65535 - i}" for i in range(workers)),
        "worker-0:7" if workers > 1 else None,
    )
    assert from_tf_config(member.tf_config(), member.role) == member


@pytest.mark.parametrize(
    ("tf_config", "message"),
    [
        ("{", "TF_CONFIG: expected JSON, found '{' (Expecting property name"),
        ("[]", "TF_CONFIG: cluster: expected an object, found 'null'"),
        ('{"cluster": {"worker": ["a:1"]}}', "TF_CONFIG: task: expected an object, found 'null'"),
        (changed(cluster_chief=["c:1"]), "cluster: expected ps, worker and rendezvous, found 'chief'"),
        (changed(cluster_ps="p0:1"), "cluster.ps: expected a list of 'host:port', found '\"p0:1\"'"),
        (changed(cluster_ps=["p0"]), "ps: expected host:port, found 'p0'"),
        (changed(cluster_ps=["p0:70000"]), "ps: expected host:port, found 'p0:70000'"),
        (changed(cluster_worker=["w0:1", "w0:1"]), "workers: expected an address of its own, found w0:1"),
        (changed(cluster_worker=["p0:1", "w:1"]), "found p0:1, also in ps"),
        (changed(cluster_ps=[]), "ps: expected at least one address for 2 workers, found none"),
        (changed(cluster_worker=[]), "workers: expected at least one address, found none"),
        (changed(cluster_rendezvous=None), "rendezvous: expected an address for 2 workers, found none"),
        (changed(cluster_rendezvous=["a:1", "b:1"]), "cluster.rendezvous: expected one address, found 2"),
        (changed(task_type="chief"), "task.type: expected 'ps' or 'worker', found 'chief'"),
        (changed(task_type="ps"), "task.type: expected 'worker' for this command, found 'ps'"),
        (changed(task_index=2), "index: expected 0 to 1, found 2"),
        (changed(task_index=-1), "index: expected 0 to 1, found -1"),
        (changed(task_index="1"), "task.index: expected an integer, found '1'"),
        (changed(task_index=True), "task.index: expected an integer, found True"),
        (changed(task_index=None), "index: expected which worker this process is (--index), found nothing"),
    ],
)
def test_what_is_wrong_in_tf_config_is_named(tf_config: str, message: str) -> None:
    with pytest.raises(UserError) as caught:
        from_tf_config(tf_config, "worker")
    assert message in str(caught.value)


def test_all_problems_are_named_at_once() -> None:
    with pytest.raises(UserError) as caught:
        from_flags("ps", "p0", "w0:1,w0:1", None, 5)
    assert len(str(caught.value).splitlines()) == 4


def test_the_place_is_told_once() -> None:
    with pytest.raises(UserError, match="expected the addresses once"):
        membership_of(parsed("--ps", "p:1"), "ps", environment={"TF_CONFIG": json.dumps(GOOD)})
    with pytest.raises(UserError, match=r"task\.index: expected 0 as in --index, found 1"):
        membership_of(parsed("--index", "0"), "worker", environment={"TF_CONFIG": json.dumps(GOOD)})


def test_a_process_that_is_told_nothing_says_what_it_needs() -> None:
    with pytest.raises(UserError, match="expected TF_CONFIG in the environment"):
        membership_of(parsed(), "ps", Cluster(), environment={})


def test_the_counts_of_the_job_file_hold() -> None:
    environment = {"TF_CONFIG": json.dumps(GOOD)}
    with pytest.raises(UserError) as caught:
        membership_of(parsed(), "worker", Cluster(ps=3, workers=4), environment=environment)
    assert str(caught.value).splitlines() == [
        "cluster: ps: expected 3 as in the job file, found 2 addresses",
        "cluster: workers: expected 4 as in the job file, found 2 addresses",
    ]
