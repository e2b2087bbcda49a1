"""Pods of small shell programs: what is started, enforced, counted, told, and left."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests.pods.trial import left, needs_pods, outside_tmp, running

GREEDY = "import time; kept = b'x' * (200 << 20); time.sleep(60)"
CONNECT = """
import socket, sys, time
for _ in range(int(sys.argv[3])):
    try:
        sys.exit(socket.create_connection((sys.argv[1], int(sys.argv[2])), 2).close())
    except OSError as error:
        last = error
        time.sleep(0.2)
sys.exit(repr(last))
"""
LISTEN = (
    "import http.server; http.server.HTTPServer(('', {port}), http.server.SimpleHTTPRequestHandler).serve_forever()"
)


@pytest.fixture(autouse=True)
def _needs_pods() -> None:
    needs_pods()


def pod_spec(*argv: str, **fields: Any) -> dict[str, Any]:
    container = {"name": "main", "image": "any", "command": list(argv), **fields.pop("container", {})}
    return {"containers": [container], "terminationGracePeriodSeconds": 2, **fields}


def job(name: str, *argv: str, count: int = 1, container: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    """An Indexed Job; its pods' label `app` is its name, and they are below the Service `all`."""
    template = {
        "metadata": {"labels": {"app": name, "of": "all"}},
        "spec": pod_spec(*argv, restartPolicy="Never", subdomain="all", container=container or {}),
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {
            "completionMode": "Indexed",
            "completions": count,
            "parallelism": count,
            "backoffLimit": 0,
            "template": template,
            **spec,
        },
    }


def plain_pod(name: str, *argv: str, namespace: str = "default", **fields: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace, "labels": {"app": name}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod_spec(*argv, **fields)}


SERVICE = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "all"},
    "spec": {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": {"of": "all"}},
}


def text_of(*objects: dict[str, Any]) -> str:
    return "\n---\n".join(map(json.dumps, objects))


def ran(folder: Path, *objects: dict[str, Any], back_off: float = 0.1) -> tuple[int, str]:
    """Exit code and words of a whole run, which leaves nothing."""
    with running(folder, text_of(*objects), back_off=back_off) as trial:
        code = trial.ends()
    print(trial.all_logs())
    assert left(folder) == []
    return code, trial.says


@outside_tmp
def test_pods_find_each_other_by_name_are_not_root_and_cannot_write_to_their_root(tmp_path: Path) -> None:
    script = (
        "set -e; test $(id -u) = 10001; ! touch /file; touch /tmp/file; ! touch /file/in/map;"
        "test $(cat /etc/hostname) = $(hostname); test $(hostname) = talk-$JOB_COMPLETION_INDEX;"
        "test $(cat /map/word) = hello; for i in 0 1; do until getent hosts talk-$i.all; do sleep 0.1; done; done;"
        "! getent hosts talk-2.all; test $(grep -c 'Cap.*:.*[1-9a-f]' /proc/self/status) = 0;"
        "touch /all/$(hostname); until test -e /all/talk-0 -a -e /all/talk-1; do sleep 0.1; done"
    )
    talk = job(
        "talk",
        "sh",
        "-c",
        script,
        count=2,
        container={
            "securityContext": {"readOnlyRootFilesystem": True},
            "volumeMounts": [
                {"name": "tmp", "mountPath": "/tmp"},
                {"name": "map", "mountPath": "/map"},
                {"name": "all", "mountPath": "/all"},
            ],
        },
    )
    spec = talk["spec"]["template"]["spec"]
    spec["volumes"] = [{"name": "tmp", "emptyDir": {}}, {"name": "map", "configMap": {"name": "words"}}]
    spec["volumes"].append({"name": "all", "persistentVolumeClaim": {"claimName": "shared"}})
    spec["securityContext"] = {"runAsUser": 10001, "runAsGroup": 10001, "fsGroup": 10001}
    words = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "words"}, "data": {"word": "hello"}}
    code, says = ran(tmp_path, SERVICE, words, talk)
    assert code == 0, says
    assert says.splitlines()[-1].endswith("complete: no pod is left")


def test_an_end_is_counted_told_with_its_last_words_and_fails_the_job_beyond_the_limit(tmp_path: Path) -> None:
    code, says = ran(
        tmp_path,
        job(
            "bad",
            *("sh", "-c", "echo one; echo error: two; exit 3"),
            backoffLimit=1,
            container={"terminationMessagePolicy": "FallbackToLogsOnError"},
        ),
        job("other", "sleep", "1000"),
    )
    assert code == 1
    assert "bad-0 ended with exit code 3: error: two; counted: 1 of backoffLimit 1; again in 0.1 s" in says
    assert "other-0: told to end, since job bad has failed" in says
    assert says.splitlines()[-1].endswith(
        "failed: job bad has failed: BackoffLimitExceeded: 2 failures counted, 1 may be: "
        "bad-0 (attempt 2) ended with exit code 3: error: two"
    )


def test_a_rule_of_the_failure_policy_fails_a_job_at_once_and_the_message_is_the_file(tmp_path: Path) -> None:
    rules = [{"action": "FailJob", "onExitCodes": {"containerName": "main", "operator": "In", "values": [2]}}]
    command = ("sh", "-c", "echo wrong file > /dev/termination-log; exit 2")
    code, says = ran(tmp_path, job("bad", *command, backoffLimit=5, podFailurePolicy={"rules": rules}))
    assert code == 1
    assert "PodFailurePolicy: pod 0 met rule 0" in says.splitlines()[-1]
    assert says.splitlines()[-1].endswith("bad-0 ended with exit code 2: wrong file")


def test_a_container_that_wants_more_memory_than_its_limit_is_killed(tmp_path: Path) -> None:
    limits = {"resources": {"limits": {"memory": "100Mi"}}}
    code, says = ran(tmp_path, job("greedy", "python", "-c", GREEDY, container=limits))
    assert code == 1
    assert "greedy-0 was OOMKilled with exit code 137: it wanted more memory than its limit of 100 MiB" in says


def test_policies_let_in_whom_they_name_and_nobody_else(tmp_path: Path) -> None:
    policy = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": "server"},
        "spec": {
            "podSelector": {"matchLabels": {"app": "server"}},
            "policyTypes": ["Ingress"],
            "ingress": [
                {"from": [{"podSelector": {"matchLabels": {"app": "client"}}}], "ports": [{"port": 8080}]},
                {
                    "from": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}],
                    "ports": [{"port": 8081}],
                },
            ],
        },
    }
    # Who may come in waits for the server to listen; who may not has then had the same chance.
    listens = LISTEN.format(port=8080)
    also = LISTEN.format(port=8081)
    name = "server-0.all.default.svc.cluster.local"

    def asks(port: int, tries: int = 60) -> tuple[str, ...]:
        return ("python", "-c", CONNECT, name, str(port), str(tries))

    server = job("server", "sh", "-c", f'python -c "{also}" & exec python -c "{listens}"')
    told = {"container": {"terminationMessagePolicy": "FallbackToLogsOnError"}, "restartPolicy": "Never"}
    pods = [
        plain_pod("client", *asks(8080), **told),
        plain_pod("client-8081", *asks(8081, 1), **told),
        plain_pod("watcher", *asks(8081), namespace="monitoring", **told),
        plain_pod("outsider", *asks(8080, 3), **told),
    ]
    with running(tmp_path, text_of(SERVICE, policy, server, *pods)) as trial:
        trial.until(lambda: all(f"{one['metadata']['name']} ended with" in trial.says for one in pods))
        print(trial.says)
        assert "client ended with exit code 0" in trial.says
        assert "watcher ended with exit code 0" in trial.says
        assert "client-8081 ended with exit code 1: TimeoutError" in trial.says
        assert "outsider ended with exit code 1: TimeoutError" in trial.says


def test_who_does_not_heed_sigterm_is_killed_after_the_grace_period_and_nothing_is_left(tmp_path: Path) -> None:
    with running(
        tmp_path, text_of(job("deaf", "sh", "-c", "trap '' TERM; sleep 1000 & while :; do wait; done"))
    ) as trial:
        trial.until(lambda: "deaf-0 is ready" in trial.says)
        time.sleep(0.5)  # the shell has read its first line
        trial.process.send_signal(signal.SIGTERM)
        assert trial.ends() == 128 + signal.SIGTERM
    assert "deaf-0 ended with exit code 137 (SIGKILL after the grace period)" in trial.says
    assert trial.says.splitlines()[-1].endswith("stopped: job deaf is not complete")
    assert left(tmp_path) == []


def test_nothing_of_a_harness_that_was_killed_runs_on_and_the_next_one_removes_what_lies(tmp_path: Path) -> None:
    with running(
        tmp_path, text_of(job("long", "sleep", "1000", container={"resources": {"limits": {"memory": "1Gi"}}}))
    ) as trial:
        trial.until(lambda: "long-0 is ready" in trial.says)
        first = int(trial.pods()["long-0"]["pid"])
        trial.process.kill()
        trial.process.wait()
    deadline = time.monotonic() + 20
    while Path(f"/proc/{first}").exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert all(one.startswith("folder ") for one in left(tmp_path))
    other = tmp_path / "other"
    other.mkdir()
    assert ran(other, job("short", "true"))[0] == 0
    assert left(tmp_path) == []


def test_drained_pods_are_not_counted_killed_ones_are_and_a_budget_is_heeded(tmp_path: Path) -> None:
    rules = [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "kept"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "kept"}}},
    }
    stays = ("sh", "-c", "sleep 1000 & wait")
    objects = text_of(
        job("free", *stays, backoffLimit=5, podFailurePolicy={"rules": rules}), job("kept", *stays), budget
    )
    with running(tmp_path, objects, back_off=0.1) as trial:
        trial.until(lambda: "kept-0 is ready" in trial.says and "free-0 is ready" in trial.says)
        trial.does("drain", "free-0")
        trial.until(lambda: "free-0 (attempt 2) is ready" in trial.says)
        assert "free-0 ended with exit code 143 (SIGTERM); not counted: rule 0" in trial.says
        trial.does("kill", "free-0")
        trial.until(lambda: "free-0 (attempt 3) is ready" in trial.says)
        assert "free-0 (attempt 2) ended with exit code 137 (SIGKILL); counted: 1 of backoffLimit 5" in trial.says
        refused = trial.order("drain", "kept-0")
        assert refused.returncode == 1
        assert "drain: kept-0: budget kept: 1 pods are ready, 1 have to stay" in refused.stderr
        unknown = trial.order("kill", "nobody-0")
        assert "there is no pod nobody-0" in unknown.stderr
        inside = trial.order("exec", "kept-0", "--", "cat", "/etc/hostname")
        assert inside.stdout == "kept-0\n"


def test_a_cut_link_silences_a_pod_and_a_failed_liveness_probe_ends_it(tmp_path: Path) -> None:
    probe = {"httpGet": {"path": "/", "port": 8080}, "periodSeconds": 1, "failureThreshold": 2}
    web = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": pod_spec(
                    "python",
                    "-c",
                    LISTEN.format(port=8080),
                    container={
                        "startupProbe": {**probe, "failureThreshold": 60},
                        "readinessProbe": probe,
                        "livenessProbe": probe,
                    },
                ),
            },
        },
    }
    with running(tmp_path, text_of(web), back_off=0.1) as trial:
        trial.until(lambda: "web-0 is ready" in trial.says)
        trial.does("cut", "web-0")
        trial.until(lambda: "web-0 started, start 2" in trial.says)
        print(trial.says)
        assert "web-0: livenessProbe failed: " in trial.says
        trial.until(lambda: trial.says.count("web-0 is ready") == 2)  # a new container has a new link


def test_a_second_run_in_one_folder_is_refused_and_what_is_not_understood_has_exit_code_2(tmp_path: Path) -> None:
    objects = text_of(job("long", "sleep", "1000"))
    with running(tmp_path, objects) as trial:
        trial.until(lambda: "long-0 is ready" in trial.says)
        second = subprocess.run(trial.process.args, input=objects, capture_output=True, text=True, cwd=Path.cwd())
        assert second.returncode == 2
        assert "--folder: expected one that no other run uses" in second.stderr
    other = tmp_path / "other"
    other.mkdir()
    code, says = ran(other, {**job("a", "true"), "kind": "CronJob"})
    assert (code, says) == (2, "CronJob a: kind: CronJob is not emulated here\n")
