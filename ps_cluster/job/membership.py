"""The place of one process in the cluster: which role, which index, who the others are."""

from __future__ import annotations

import argparse
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from ps_cluster.errors import UserError
from ps_cluster.job.schema import Cluster

Role = Literal["ps", "worker"]


@dataclass(frozen=True)
class Membership:
    """One process and its cluster; addresses are "host:port".

    Attributes:
      role: what this process does.
      index: which PS or which worker it is, from 0; a worker's Horovod rank.
      ps: address of each PS; empty when the one worker holds the tables.
      workers: address of each worker; at least one.
      rendezvous: where worker 0 serves the workers' rendezvous; None only with a single worker.
    """

    role: Role
    index: int
    ps: tuple[str, ...]
    workers: tuple[str, ...]
    rendezvous: str | None = None

    @property
    def address(self) -> str:
        """Address of this process."""
        return (self.ps if self.role == "ps" else self.workers)[self.index]

    @property
    def port(self) -> int:
        """Port this process listens on."""
        return port_of(self.address)

    def tf_config(self) -> str:
        """Value of `TF_CONFIG` that says the same; `from_tf_config` reads it back."""
        cluster = {"ps": list(self.ps), "worker": list(self.workers)}
        if self.rendezvous is not None:
            cluster["rendezvous"] = [self.rendezvous]
        return json.dumps({"cluster": cluster, "task": {"type": self.role, "index": self.index}})


def port_of(address: str) -> int:
    """Port of "host:port"."""
    return int(address.rpartition(":")[2])


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags by which a process is told its place; `membership_of` reads them."""
    parser.add_argument("--ps", metavar="HOST:PORT,…", help="addresses of all PS, in order")
    parser.add_argument("--workers", metavar="HOST:PORT,…", help="addresses of all workers, in order")
    parser.add_argument("--rendezvous", metavar="HOST:PORT", help="where worker 0 lets the workers find each other")
    parser.add_argument("--index", type=int, metavar="N", help="which of them this process is, from 0")


def membership_of(
    args: argparse.Namespace,
    role: Role,
    cluster: Cluster | None = None,
    environment: Mapping[str, str] = os.environ,
) -> Membership:
    """Place of this process, from its flags, else `TF_CONFIG`, else the addresses in the job file.

    Args:
      args: parsed flags of `add_arguments`.
      role: what this process was started as.
      cluster: section of the job file, when there is one: its counts must agree with what is found.
      environment: where `TF_CONFIG` is looked up.

    Raises:
      UserError: the place is not told, is told twice, or does not make sense; one line for each problem.
    """
    by_flags = any(value is not None for value in (args.ps, args.workers, args.rendezvous))
    tf_config = environment.get("TF_CONFIG")
    if by_flags and tf_config is not None:
        raise UserError(
            "cluster: expected the addresses once, found them in TF_CONFIG and in --ps/--workers/--rendezvous"
        )
    if by_flags:
        found = from_flags(role, args.ps, args.workers, args.rendezvous, args.index)
    elif tf_config is not None:
        found = from_tf_config(tf_config, role, args.index)
    elif cluster is not None and cluster.worker_addresses is not None:
        found = _from_parts(
            "job file: cluster",
            role,
            args.index,
            cluster.ps_addresses or [],
            cluster.worker_addresses,
            cluster.rendezvous_address,
        )
    else:
        raise UserError(
            "cluster: expected TF_CONFIG in the environment, the flags --ps, --workers and --index, or "
            "addresses in the job file and --index, found none of them (to start a cluster on this machine: "
            "ps-cluster train)"
        )
    if cluster is not None:
        _check_counts(found, cluster)
    return found


def from_flags(
    role: Role, ps: str | None, workers: str | None, rendezvous: str | None, index: int | None
) -> Membership:
    """Membership from flag values; `ps` and `workers` are comma-separated lists."""
    return _from_parts("flags", role, index, _split(ps), _split(workers), rendezvous)


def from_tf_config(text: str, role: Role, index: int | None = None) -> Membership:
    """Membership from the value of `TF_CONFIG`.

    Form: `{"cluster": {"ps": ["host:port", …], "worker": […], "rendezvous": ["host:port"]},
    "task": {"type": "ps", "index": 0}}`. The task's index may be left out when `index`,
    from the flag, gives it.
    """
    try:
        config = json.loads(text)
    except json.JSONDecodeError as error:
        raise UserError(f"TF_CONFIG: expected JSON, found {_short(text)} ({error})") from None
    problems: list[str] = []
    cluster = _mapping(config, "cluster", problems)
    task = _mapping(config, "task", problems, required=index is None)
    for key in sorted(set(cluster) - {"ps", "worker", "rendezvous"}):
        problems.append(f"TF_CONFIG: cluster: expected ps, worker and rendezvous, found {key!r}")
    lists = {key: _strings(cluster, key, problems) for key in ("ps", "worker", "rendezvous")}
    if len(lists["rendezvous"]) > 1:
        problems.append(f"TF_CONFIG: cluster.rendezvous: expected one address, found {len(lists['rendezvous'])}")
    if "type" in task and task["type"] not in get_args(Role):
        problems.append(f"TF_CONFIG: task.type: expected 'ps' or 'worker', found {task['type']!r}")
    elif "type" in task and task["type"] != role:
        problems.append(f"TF_CONFIG: task.type: expected {role!r} for this command, found {task['type']!r}")
    if "index" in task:
        told = task["index"]
        if isinstance(told, bool) or not isinstance(told, int):
            problems.append(f"TF_CONFIG: task.index: expected an integer, found {told!r}")
        elif index is not None and told != index:
            problems.append(f"TF_CONFIG: task.index: expected {index} as in --index, found {told}")
        else:
            index = told
    if problems:
        raise UserError("\n".join(problems))
    rendezvous = lists["rendezvous"][0] if lists["rendezvous"] else None
    return _from_parts("TF_CONFIG", role, index, lists["ps"], lists["worker"], rendezvous)


_ADDRESS = re.compile(r"[A-Za-z0-9._-]+:([0-9]{1,5})", re.ASCII)


def _from_parts(
    source: str,
    role: Role,
    index: int | None,
    ps: Sequence[str],
    workers: Sequence[str],
    rendezvous: str | None,
) -> Membership:
    problems = []
    everyone = [("ps", a) for a in ps] + [("workers", a) for a in workers]
    if rendezvous is not None:
        everyone.append(("rendezvous", rendezvous))
    seen: dict[str, str] = {}
    for where, address in everyone:
        match = _ADDRESS.fullmatch(address)
        if match is None or not 0 < int(match.group(1)) < 65536:
            problems.append(f"{source}: {where}: expected host:port, found {address!r}")
        elif address in seen:
            problems.append(
                f"{source}: {where}: expected an address of its own, found {address}, also in {seen[address]}"
            )
        seen.setdefault(address, where)
    if not workers:
        problems.append(f"{source}: workers: expected at least one address, found none")
    if not ps and role == "ps":
        problems.append(f"{source}: ps: expected at least one address, found none")
    elif not ps and len(workers) > 1:
        problems.append(
            f"{source}: ps: expected at least one address for {len(workers)} workers, found none "
            "(only a single worker can hold the tables itself)"
        )
    if rendezvous is None and len(workers) > 1:
        problems.append(f"{source}: rendezvous: expected an address for {len(workers)} workers, found none")
    members = ps if role == "ps" else workers
    if index is None:
        problems.append(f"{source}: index: expected which {role} this process is (--index), found nothing")
    elif members and not 0 <= index < len(members):
        problems.append(f"{source}: index: expected 0 to {len(members) - 1}, found {index}")
    if problems or index is None:
        raise UserError("\n".join(problems))
    return Membership(role, index, tuple(ps), tuple(workers), rendezvous)


def _check_counts(found: Membership, cluster: Cluster) -> None:
    problems = [
        f"cluster: {name}: expected {count} as in the job file, found {len(addresses)} addresses"
        for name, count, addresses in (
            ("ps", cluster.ps, found.ps),
            ("workers", cluster.workers, found.workers),
        )
        if count != len(addresses)
    ]
    if problems:
        raise UserError("\n".join(problems))


def _split(value: str | None) -> list[str]:
    return [] if not value else [part.strip() for part in value.split(",")]


def _mapping(config: object, key: str, problems: list[str], required: bool = True) -> dict[str, object]:
    value = config.get(key) if isinstance(config, dict) else None
    if isinstance(value, dict):
        return value
    if value is not None or required:
        problems.append(f"TF_CONFIG: {key}: expected an object, found {_short(json.dumps(value))}")
    return {}


def _strings(cluster: dict[str, object], key: str, problems: list[str]) -> list[str]:
    value = cluster.get(key, [])
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return value
    problems.append(f"TF_CONFIG: cluster.{key}: expected a list of 'host:port', found {_short(json.dumps(value))}")
    return []


def _short(text: str) -> str:
    return repr(text) if len(text) <= 60 else repr(text[:57] + "...")
