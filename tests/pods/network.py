"""The pods' network: a bridge in a namespace of the harness, an address for each pod, links that can be cut."""

from __future__ import annotations

import os
import shutil
import subprocess

from ps_cluster.errors import UserError
from tests.pods import linux, policy
from tests.pods.policy import Admitted

NODE = "10.77.0.1"
_BRIDGE = "02:70:6f:64:73:01"
"""A bridge without a hardware address of its own takes another one whenever a pod ends, which the others learn late."""
_MOST_PODS = 250 * 250


def enter() -> None:
    """Puts this process into a network of its own: nothing of this machine's is touched, and all of it ends with the
    last process in it. Before any thread is started.

    Raises:
      UserError: that is not allowed, or a program is missing.
    """
    for program, package in (("ip", "iproute2"), ("nsenter", "util-linux")):
        if shutil.which(program) is None:
            raise UserError(f"expected the program {program}, found none: apt-get install {package}")
    try:
        linux.unshare(linux.NEW_NETWORK)
    except OSError as error:
        raise UserError(f"expected the right to make network namespaces (run as root), found: {error}") from None
    bridge = f"link add pods address {_BRIDGE} type bridge\naddress add {NODE}/16 dev pods\nlink set pods up\n"
    _run("ip", "-batch", "-", text=f"link set lo up\n{bridge}")


def firewall() -> str:
    """The program that rules for packets are given to.

    Raises:
      UserError: there is none.
    """
    for program in ("nft", "iptables-restore"):
        if shutil.which(program) is not None:
            return program
    raise UserError("expected the program nft or iptables, found none: apt-get install nftables")


class Addresses:
    """Hands out addresses, none twice before all have been used."""

    def __init__(self) -> None:
        self._given = 0

    def next(self) -> str:
        self._given = self._given % _MOST_PODS + 1
        return f"10.77.{1 + self._given // 250}.{1 + self._given % 250}"


class Link:
    """The network of one pod, whose first process is `pid`."""

    def __init__(self, number: int, pid: int, address: str):
        self._end = f"pod{number}"
        self._space = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)  # by it the network outlives the process
        self._rules: str | None = None
        peer = ["type", "veth", "peer", "name", "eth0", "netns", str(pid)]
        _run("ip", "link", "add", self._end, *peer)
        _run("ip", "link", "set", self._end, "master", "pods", "up")
        inside = f"link set lo up\naddress add {address}/16 dev eth0\nlink set eth0 up\n"
        self._run_inside("ip", "-batch", "-", text=inside)

    def admit(self, rules: tuple[Admitted, ...] | None, program: str) -> None:
        """Lets in what the rules say and nothing else."""
        text = (policy.nft_text if program == "nft" else policy.iptables_text)(rules, NODE)
        if text == self._rules or (self._rules is None and rules is None):
            return
        self._run_inside(program, *(("-f", "-") if program == "nft" else ()), text=text)
        self._rules = text

    def close(self) -> None:
        """The pod has no network any more."""
        os.close(self._space)

    def _run_inside(self, *command: str, text: str) -> None:
        _run("nsenter", f"--net=/proc/self/fd/{self._space}", *command, text=text, keep=(self._space,))

    def cut(self) -> None:
        """Takes the link away; connections are not told."""
        _run("ip", "link", "set", self._end, "down")

    def mend(self) -> None:
        """The link is back."""
        _run("ip", "link", "set", self._end, "up")


def _run(*command: str, text: str = "", keep: tuple[int, ...] = ()) -> None:
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False, pass_fds=keep)
    if done.returncode:
        raise OSError(f"{' '.join(command)}: {done.stderr.strip()}\n{text}")
