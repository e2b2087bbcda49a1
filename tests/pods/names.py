"""Names of pods and Services, and the name server that the pods ask."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterable, Mapping

from tests.pods.objects import Service
from tests.pods.pods import Pod

DOMAIN = "cluster.local"
_A, _ANY, _IN = 1, 255, 1
_NO_ERROR, _NO_SUCH_NAME = 0, 3
_SECONDS = 5  # for which an answer may be kept


def records(services: Iterable[Service], pods: Iterable[Pod], ready: frozenset[str]) -> dict[str, list[str]]:
    """Addresses by full name. ready: names of pods; others have none but where a Service publishes them, too."""
    found: dict[str, list[str]] = {}
    all_pods = list(pods)
    for service in services:
        full = f"{service.name}.{service.namespace}.svc.{DOMAIN}"
        found[full] = []
        for pod in all_pods:
            if pod.workload.namespace != service.namespace or not service.selector.selects(pod.labels):
                continue
            if service.not_ready_too or pod.name in ready:
                found[full].append(pod.address)
                if pod.workload.template.subdomain == service.name:
                    found.setdefault(f"{pod.host}.{full}", []).append(pod.address)
    return found


def resolver_text(namespace: str, server: str) -> str:
    """A pod's /etc/resolv.conf, as the kubelet writes it."""
    return f"search {namespace}.svc.{DOMAIN} svc.{DOMAIN} {DOMAIN}\nnameserver {server}\noptions ndots:5\n"


def hosts_text(pod: Pod) -> str:
    """A pod's /etc/hosts, as the kubelet writes it: only its own name."""
    names = [pod.host]
    if subdomain := pod.workload.template.subdomain:
        names.insert(0, f"{pod.host}.{subdomain}.{pod.workload.namespace}.svc.{DOMAIN}")
    return f"127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n{pod.address}\t{' '.join(names)}\n"


def answer(question: bytes, known: Mapping[str, list[str]]) -> bytes | None:
    """The packet that answers a packet; None for one that is no question."""
    if len(question) < 12:
        return None
    number, flags, count = struct.unpack("!HHH", question[:6])
    if flags & 0x8000 or count != 1:
        return None
    labels, place = [], 12
    try:
        while size := question[place]:
            labels.append(question[place + 1 : place + 1 + size].decode("ascii").lower())
            place += 1 + size
        kind, _ = struct.unpack("!HH", question[place + 1 : place + 5])
    except (IndexError, UnicodeDecodeError, struct.error):
        return None
    name = ".".join(labels)
    # A name that others end in exists, without an address of its own.
    exists = name in known or any(one.endswith(f".{name}") for one in known)
    addresses = known.get(name, []) if kind in (_A, _ANY) else []
    code = _NO_ERROR if exists else _NO_SUCH_NAME
    head = struct.pack("!HHHHHH", number, 0x8580 | (flags & 0x0100) | code, 1, len(addresses), 0, 0)
    told = b"".join(
        b"\xc0\x0c" + struct.pack("!HHIH", _A, _IN, _SECONDS, 4) + socket.inet_aton(one) for one in addresses
    )
    return head + question[12 : place + 5] + told


class NameServer:
    """Answers from a thread of its own, until the process ends."""

    def __init__(self, address: str):
        self.known: Mapping[str, list[str]] = {}
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind((address, 53))
        threading.Thread(target=self._serve, name="names", daemon=True).start()

    def _serve(self) -> None:
        while True:
            question, who = self._socket.recvfrom(4096)
            told = answer(question, self.known)
            if told is not None:
                try:
                    self._socket.sendto(told, who)
                except OSError:  # whoever asked is gone
                    continue
