"""Which connections NetworkPolicies let into a pod, as rules for the packets that arrive there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tests.pods.objects import Peer, Policy
from tests.pods.pods import Pod

ALL_PORTS = (1, 65535)


@dataclass(frozen=True, order=True)
class Admitted:
    """New connections from an address (None: from everywhere) to a range of ports."""

    source: str | None
    ports: tuple[int, int]


def admitted(
    pod: Pod, pods: Iterable[Pod], policies: Iterable[Policy], namespaces: Mapping[str, Mapping[str, str]]
) -> tuple[Admitted, ...] | None:
    """What is let into `pod`; None where no policy selects it, and everything is."""
    mine = [one for one in policies if one.namespace == pod.workload.namespace and one.selector.selects(pod.labels)]
    if not mine:
        return None
    others = list(pods)
    found = set()
    for policy in mine:
        for rule in policy.rules:
            sources: list[str | None] = [None]
            if rule.peers:
                sources = [
                    other.address
                    for other in others
                    if any(_is_peer(peer, other, policy, namespaces) for peer in rule.peers)
                ]
            found |= {Admitted(source, ports) for source in sources for ports in rule.ports or (ALL_PORTS,)}
    return tuple(sorted(found, key=lambda one: (one.source or "", one.ports)))


def _is_peer(peer: Peer, pod: Pod, policy: Policy, namespaces: Mapping[str, Mapping[str, str]]) -> bool:
    namespace = pod.workload.namespace
    if peer.namespaces is None:
        if namespace != policy.namespace:
            return False
    elif not peer.namespaces.selects(namespaces[namespace]):
        return False
    return peer.pods.selects(pod.labels)


def nft_text(rules: tuple[Admitted, ...] | None, node: str) -> str:
    """For `nft -f`, inside the pod. node: address of the machine, whose probes are always let in."""
    head = "table inet pods\ndelete table inet pods\n"
    if rules is None:
        return head
    lines = [
        "type filter hook input priority 0; policy drop;",
        'iifname "lo" accept',
        "ct state established,related accept",
        f"ip saddr {node} accept",
        # Neighbours of IPv6 are looked for with packets of their own.
        "meta l4proto ipv6-icmp accept",
        *(f"{_from(one)}tcp dport {one.ports[0]}-{one.ports[1]} accept" for one in rules),
    ]
    return head + "table inet pods {\n chain input {\n  " + "\n  ".join(lines) + "\n }\n}\n"


def iptables_text(rules: tuple[Admitted, ...] | None, node: str) -> str:
    """For `iptables-restore`, which knows IPv4 only, as the pods do."""
    if rules is None:
        return "*filter\n:INPUT ACCEPT [0:0]\nCOMMIT\n"
    lines = [
        "*filter",
        ":INPUT DROP [0:0]",
        "-A INPUT -i lo -j ACCEPT",
        "-A INPUT -m conntrack --ctstate ESTABLISHED,RELATED -j ACCEPT",
        f"-A INPUT -s {node} -j ACCEPT",
        *(f"-A INPUT {_source(one)}-p tcp --dport {one.ports[0]}:{one.ports[1]} -j ACCEPT" for one in rules),
        "COMMIT",
    ]
    return "\n".join(lines) + "\n"


def _source(one: Admitted) -> str:
    return f"-s {one.source} " if one.source is not None else ""


def _from(one: Admitted) -> str:
    return f"ip saddr {one.source} " if one.source is not None else ""
