"""Small parts: names, probes, budgets, quantities, variables."""

from __future__ import annotations

import struct

import pytest

from ps_cluster.errors import UserError
from tests.pods import eviction, names, probes
from tests.pods.manifests import objects_of
from tests.pods.objects import Probe
from tests.pods.pods import Pod, expanded
from tests.pods.quantities import bytes_of
from tests.pods.test_manifests import RENDERED

CLUSTER = objects_of(RENDERED)
PS, WORKERS = CLUSTER.workloads
PODS = [Pod(PS, 0, 0, "10.77.1.2"), Pod(PS, 1, 2, "10.77.1.3"), Pod(WORKERS, 0, 0, "10.77.1.4")]


def question(name: str, kind: int = 1) -> bytes:
    labels = b"".join(bytes([len(part)]) + part.encode() for part in name.split("."))
    return struct.pack("!HHHHHH", 7, 0x0100, 1, 0, 0, 0) + labels + b"\0" + struct.pack("!HH", kind, 1)


def asked(name: str, kind: int = 1) -> tuple[int, list[str]]:
    """Code and addresses of an answer."""
    known = names.records(CLUSTER.services, PODS, frozenset())
    told = names.answer(question(name, kind), known)
    assert told is not None
    number, flags, _, count = struct.unpack("!HHHH", told[:8])
    assert number == 7 and flags & 0x8000
    tail = told[len(question(name, kind)) :]
    return flags & 0xF, [".".join(map(str, tail[16 * i + 12 : 16 * i + 16])) for i in range(count)]


def test_pods_have_names_below_their_service_whether_ready_or_not():
    assert asked("movielens-ps-1.movielens.default.svc.cluster.local") == (0, ["10.77.1.3"])
    assert asked("movielens.default.svc.cluster.local")[1] == ["10.77.1.2", "10.77.1.3", "10.77.1.4"]
    assert asked("movielens-ps-1.movielens.default.svc.cluster.local", kind=28) == (0, [])  # no IPv6 here
    assert asked("movielens-ps-7.movielens.default.svc.cluster.local") == (3, [])


def test_packets_that_are_no_questions_get_no_answer():
    for packet in (b"", b"1234567890123456", question("a")[:-3], b"\xff" * 40):
        assert names.answer(packet, {}) is None


def test_until_a_container_has_started_only_that_is_asked_and_then_it_no_more():
    told = {"startupProbe": Probe("tcpSocket", failures=2), "readinessProbe": Probe("tcpSocket", successes=2)}
    health = probes.at_start(told)
    assert [name for name in told if probes.is_asked(health, name)] == ["startupProbe"]
    health = probes.answered(told, health, "startupProbe", False)
    health = probes.answered(told, health, "startupProbe", True)
    assert (health.started, health.ready, health.failed) == (True, False, None)
    assert [name for name in told if probes.is_asked(health, name)] == ["readinessProbe"]
    health = probes.answered(told, probes.answered(told, health, "readinessProbe", True), "readinessProbe", True)
    assert health.ready


def test_a_probe_fails_after_as_many_bad_answers_in_a_row_as_it_says():
    told = {"livenessProbe": Probe("tcpSocket", failures=3), "readinessProbe": Probe("tcpSocket", failures=1)}
    health = probes.at_start(told)
    for well in (False, False, True, False, False):
        health = probes.answered(told, health, "livenessProbe", well)
    assert health.failed is None
    assert probes.answered(told, health, "livenessProbe", False).failed == "livenessProbe"
    ready = probes.answered(told, health, "readinessProbe", True)
    assert ready.ready and not probes.answered(told, ready, "readinessProbe", False).ready


def test_a_budget_refuses_to_evict_a_ps_that_serves_and_no_worker():
    ps = PODS[:2]
    assert "budget movielens-ps: 2 pods are ready, 2 have to stay" in str(
        eviction.refused(ps[0], PODS, 2, CLUSTER.budgets)
    )
    assert eviction.refused(PODS[2], PODS, 2, CLUSTER.budgets) is None
    assert eviction.refused(ps[0], [ps[1]], 2, CLUSTER.budgets) is None  # it is not ready


def test_variables_are_put_into_command_lines_as_kubernetes_does_it():
    assert expanded("--index=$(I) $$(I) $(NONE) $I", {"I": "3"}) == "--index=3 $(I) $(NONE) $I"


@pytest.mark.parametrize(("text", "count"), [("1Gi", 2**30), ("512Mi", 2**29), ("1.5G", 1_500_000_000), ("7", 7)])
def test_quantities_are_bytes(text, count):
    assert bytes_of(text, "here") == count


@pytest.mark.parametrize("text", ["", "1gi", "-1", "1 Gi", None])
def test_what_is_no_quantity_is_refused(text):
    with pytest.raises(UserError, match="here: expected a quantity"):
        bytes_of(text, "here")
