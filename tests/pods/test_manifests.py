"""What is read of YAML, and what is refused."""

from __future__ import annotations

import copy
import functools
from pathlib import Path
from typing import Any

import pytest

from ps_cluster.errors import UserError
from ps_cluster.job.load import load_job
from ps_cluster.kubernetes.render import run_objects
from tests.k8s.manifests import K8S
from tests.pods import image
from tests.pods.__main__ import main
from tests.pods.command_line import arguments
from tests.pods.manifests import cluster_of, objects_of
from tests.pods.pods import Pod, environment
from tests.pods.trial import outside_tmp
from tests.ps_cluster.kubernetes.jobs import job_with

RENDERED = run_objects(load_job(K8S / "base" / "job.yaml"))


def changed(kind: str, path: str, value: Any) -> list[Any]:
    """The rendered objects with one field of the first object of a kind set."""
    objects = copy.deepcopy(RENDERED)
    one = next(one for one in objects if one["kind"] == kind)
    *above, last = [int(word) if word.isdigit() else word for word in path.split(".")]
    functools.reduce(lambda part, name: part[name], above, one)[last] = value
    return objects


def test_what_render_prints_is_understood_as_a_whole():
    cluster = objects_of(RENDERED)
    ps, worker = cluster.workloads
    assert (ps.name, ps.replicas, worker.name) == ("movielens-ps", 2, "movielens-worker")
    assert ps.rules is not None
    assert [rule.action for rule in ps.rules.failure_rules] == ["FailJob", "Ignore", "Ignore"]
    assert (ps.template.grace_seconds, ps.template.uid, ps.template.always) == (150, 10001, False)
    container = ps.template.container
    assert container.memory_bytes == 2**30 and container.read_only_root and container.message_from_log
    assert container.probes["startupProbe"].port == 2222 and container.probes["livenessProbe"].path == "/healthz"
    assert cluster.claims == {"movielens"} and len(cluster.policies) == 2 and len(cluster.budgets) == 1


@outside_tmp
def test_pods_that_stay_and_the_evaluator_are_understood_too():
    job = job_with(
        kubernetes={"ps": {"kind": "StatefulSet", "memory": "1GiB", "cpu": 1}, "worker": {"memory": "1GiB", "cpu": 1}}
    )
    cluster = objects_of(run_objects(job))
    ps = next(one for one in cluster.workloads if one.kind == "StatefulSet")
    assert ps.template.always
    pod = Pod(ps, 1, 0, "10.77.1.1")
    variables = environment(pod, cluster, image.variables())
    assert variables["JOB_COMPLETION_INDEX"] == "1"
    assert "--index=1" in arguments(pod, variables)


@outside_tmp
def test_a_pod_of_an_indexed_job_knows_its_index_by_variable_annotation_and_label():
    cluster = objects_of(RENDERED)
    pod = Pod(cluster.workloads[1], 1, 0, "10.77.1.1")
    assert pod.host == "movielens-worker-1"
    variables = environment(pod, cluster, image.variables())
    assert variables["JOB_COMPLETION_INDEX"] == "1"
    assert "--index=1" in arguments(pod, variables)
    index = "batch.kubernetes.io/job-completion-index"
    assert pod.field(f"metadata.annotations['{index}']") == pod.field(f"metadata.labels['{index}']") == "1"


@pytest.mark.parametrize(
    ("kind", "path", "value", "message"),
    [
        ("Job", "spec.suspend", True, "Job movielens-ps: spec.suspend: nobody"),
        ("Job", "spec.successPolicy", {"rules": []}, "Job movielens-ps: spec.successPolicy: not emulated here"),
        (
            "Job",
            "spec.template.spec.initContainers",
            [{"name": "a"}],
            "Job movielens-ps: spec.template.spec.initContainers: not emulated here",
        ),
        ("Job", "spec.template.spec.hostNetwork", True, "spec.template.spec.hostNetwork: not emulated here"),
        ("Job", "spec.template.spec.restartPolicy", "OnFailure", "restartPolicy: OnFailure is not emulated here"),
        ("Job", "spec.template.spec.containers.0.lifecycle", {}, "containers[0].lifecycle: not emulated here"),
        ("Job", "spec.template.spec.containers.0.resources.limits.memory", "1x", "quantity of memory such as 512Mi"),
        (
            "Job",
            "spec.template.spec.containers.0.startupProbe.tcpSocket.port",
            "grpc",
            "containers[0].startupProbe.tcpSocket.port: no port of the container is called grpc",
        ),
        ("Job", "spec.template.spec.volumes.1", {"name": "storage", "hostPath": {"path": "/"}}, "volumes[1].hostPath"),
        ("Job", "spec.template.spec.volumes.0.configMap.name", "gone", "there is no ConfigMap gone"),
        ("NetworkPolicy", "spec.policyTypes", ["Ingress", "Egress"], "NetworkPolicy movielens-ps: spec.policyTypes"),
        (
            "NetworkPolicy",
            "spec.ingress.0.from",
            [{"ipBlock": {"cidr": "10.0.0.0/8"}}],
            "spec.ingress[0].from[0].ipBlock",
        ),
        ("Service", "spec.type", "LoadBalancer", "Service movielens: spec.type: LoadBalancer is not emulated here"),
        ("Service", "kind", "Ingress", "Ingress movielens: kind: Ingress is not emulated here"),
        (
            "Job",
            "spec.backoffLimitPerIndex",
            "6",
            "Job movielens-ps: spec.backoffLimitPerIndex: expected int, found '6'",
        ),
    ],
)
def test_what_would_matter_and_is_not_emulated_is_refused_by_object_and_field(kind, path, value, message):
    with pytest.raises(UserError) as error:
        objects_of(changed(kind, path, value))
    assert message in str(error.value)


@pytest.mark.parametrize("text", ["", "---\n", "a: [", "- 1\n", "kind: Job\n"])
def test_what_is_no_object_is_refused(text):
    with pytest.raises(UserError):
        cluster_of(text)


def test_a_file_that_is_not_there_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--file", str(tmp_path / "absent.yaml"), "--folder", str(tmp_path / "pods")]) == 2
    assert capsys.readouterr().err.strip() == f"{tmp_path}/absent.yaml: expected objects as YAML, found: " + (
        "No such file or directory"
    )


@outside_tmp
def test_a_program_that_is_not_here_is_named():
    cluster = objects_of(changed("Job", "spec.template.spec.containers.0.args", ["tensorflow_model_server"]))
    pod = Pod(cluster.workloads[0], 0, 0, "10.77.1.1")
    with pytest.raises(
        UserError, match=r"Job movielens-ps: container ps: expected a program .* found tensorflow_model"
    ):
        arguments(pod, {})
