"""NetworkPolicies as rules for packets, compared with another reading of the same objects."""

from __future__ import annotations

import itertools

from tests.k8s import objects as reference
from tests.pods.manifests import objects_of
from tests.pods.objects import Workload
from tests.pods.pods import Pod
from tests.pods.policy import Admitted, admitted, iptables_text, nft_text
from tests.pods.test_manifests import RENDERED

OUTSIDER = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "outsider", "labels": {"app": "other"}},
    "spec": {"containers": [{"name": "c", "args": ["sleep", "1"]}]},
}
WATCHER = {**OUTSIDER, "metadata": {"name": "prometheus", "namespace": "monitoring", "labels": {}}}
CLUSTER = objects_of([*RENDERED, OUTSIDER, WATCHER])


def pods_of(workload: Workload) -> list[Pod]:
    return [
        Pod(workload, number, 0, f"10.77.{CLUSTER.workloads.index(workload)}.{number + 2}")
        for number in range(workload.replicas)
    ]


PODS = [pod for workload in CLUSTER.workloads for pod in pods_of(workload)]


def test_every_pod_reaches_exactly_the_ports_that_the_policies_admit():
    seen = set()
    for target, source, port in itertools.product(PODS, PODS, (22, 2222, 2223, 2224, 40000)):
        rules = admitted(target, PODS, CLUSTER.policies, CLUSTER.namespaces)
        found = rules is None or any(
            rule.source in (None, source.address) and rule.ports[0] <= port <= rule.ports[1] for rule in rules
        )
        namespace = source.workload.namespace
        elsewhere = CLUSTER.namespaces[namespace] if namespace != target.workload.namespace else None
        if target.workload.namespace == "default":
            wanted = reference.admitted(RENDERED, source.labels, target.labels, port, elsewhere)
            assert found == wanted, (source.host, target.host, port)
            seen.add(found)
    assert seen == {True, False}


def test_rules_for_packets_name_sources_and_ports_and_drop_the_rest():
    rules = (Admitted(None, (1, 65535)), Admitted("10.77.1.2", (2222, 2223)))
    nft, iptables = nft_text(rules, "10.77.0.1"), iptables_text(rules, "10.77.0.1")
    assert "policy drop" in nft and "ip saddr 10.77.1.2 tcp dport 2222-2223 accept" in nft
    assert ":INPUT DROP" in iptables and "-A INPUT -s 10.77.1.2 -p tcp --dport 2222:2223 -j ACCEPT" in iptables
    assert "drop" not in nft_text(None, "10.77.0.1") and "DROP" not in iptables_text(None, "10.77.0.1")
