"""`ps-cluster render job.yaml | python -m tests.pods` runs objects; `python -m tests.pods kill POD` disturbs them."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from ps_cluster.errors import RunError, UserError
from tests.pods import control, image, network
from tests.pods.command_line import arguments
from tests.pods.container import Volumes
from tests.pods.job_controller import FIRST_BACK_OFF_SECONDS
from tests.pods.manifests import cluster_of
from tests.pods.objects import Cluster
from tests.pods.pods import Pod, environment
from tests.pods.run_folder import RunFolder
from tests.pods.runner import Options, Runner

DISTURBANCES = {
    "kill": "SIGKILL to all processes of a pod: it counts as a failure",
    "delete": "delete a pod: SIGTERM, and SIGKILL after its grace period",
    "drain": "evict a pod as a drained node does, if the disruption budgets let it: its end need not count",
    "preempt": "the same, whatever the budgets say",
    "cut": "cut a pod's link to the others",
    "mend": "the link is back",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Exit codes: 0 complete, 1 failed, 2 what was given is wrong or not emulated; 130, 143 after Ctrl-C, SIGTERM."""
    args = parser().parse_args(argv)
    try:
        return args.do(args)
    except UserError as error:
        print(error, file=sys.stderr)
        return 2
    except RunError as error:
        print(error, file=sys.stderr)
        return 1


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="python -m tests.pods", description=__doc__)
    commands = top.add_subparsers(metavar="COMMAND")
    run = commands.add_parser("run", help="run objects until their Jobs have ended (the default)")
    for one in (top, run):
        one.add_argument("--file", default="-", help="YAML; default: standard input")
        one.add_argument("--volume", action="append", default=[], metavar="CLAIM=FOLDER", help="folder of a claim")
        one.add_argument(
            "--back-off",
            type=float,
            default=FIRST_BACK_OFF_SECONDS,
            metavar="SECONDS",
            help="before the next attempt of a failed pod; doubles with each failure (default, as in Kubernetes: 10)",
        )
        one.set_defaults(do=run_objects)
    top.add_argument("--folder", type=Path, default=Path("pods"), help="logs, and claims without a --volume (pods)")
    for verb, words in DISTURBANCES.items():
        command = commands.add_parser(verb, help=words)
        command.add_argument("pods", nargs="+", metavar="POD", help="host name of a pod, such as clicks-ps-0")
        command.set_defaults(do=disturb, verb=verb)
    listing = commands.add_parser("list", help="pods that are there")
    listing.set_defaults(do=show)
    inside = commands.add_parser("exec", help="run a command in a pod")
    inside.add_argument("pod", metavar="POD")
    inside.add_argument("words", nargs=argparse.REMAINDER, metavar="COMMAND")
    inside.set_defaults(do=execute)
    for command in (run, *(commands.choices[verb] for verb in DISTURBANCES), listing, inside):
        command.add_argument("--folder", type=Path, default=argparse.SUPPRESS, help="of the run")
    return top


def run_objects(args: argparse.Namespace) -> int:
    """Until their Jobs have ended."""
    try:
        text = sys.stdin.read() if args.file == "-" else Path(args.file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{args.file}: expected objects as YAML, found: {getattr(error, 'strerror', error)}") from None
    cluster = cluster_of(text)
    check(cluster)
    if args.back_off <= 0:
        raise UserError(f"--back-off: expected more than 0 seconds, found {args.back_off:g}")
    claims = folders_of(args.volume, cluster, args.folder)
    network.enter()
    folder = RunFolder(args.folder)
    memory = None
    try:
        memory = folder.memory()
        volumes = Volumes(claims, cluster.config_maps, folder.scratch)
        requests = control.Control(folder.place)
        runner = Runner(cluster, Options(args.folder, args.back_off), volumes, memory, requests, tell)
        got: list[int] = []

        def heed(number: int, frame: object) -> None:
            got.append(number)
            runner.stop()

        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, heed)
        tell(f"runs {len(cluster.workloads)} objects that make pods; {memory.how}")
        failure = runner.run()
    finally:
        if memory is not None:
            memory.close()
        folder.close()
    if failure is not None:
        tell(f"{'stopped' if got else 'failed'}: {failure}")
    else:
        tell("complete: no pod is left")
    return 128 + got[0] if got else 0 if failure is None else 1


def check(cluster: Cluster) -> None:
    """Raises UserError where a container's command is not here, before anything is started."""
    for workload in cluster.workloads:
        pod = Pod(workload, 0, 0, network.NODE)
        arguments(pod, environment(pod, cluster, image.variables()))
    if cluster.policies:
        network.firewall()


def folders_of(told: Sequence[str], cluster: Cluster, folder: Path) -> dict[str, Path]:
    """Folder of each claim that a pod mounts."""
    claims = {
        volume.source
        for workload in cluster.workloads
        for volume in workload.template.volumes
        if volume.kind == "persistentVolumeClaim"
    }
    found = {claim: (folder / "volumes" / claim).resolve() for claim in claims}
    for one in told:
        claim, _, place = one.partition("=")
        if claim not in claims or not place:
            raise UserError(f"--volume: expected CLAIM=FOLDER with a claim of {sorted(claims)}, found {one}")
        found[claim] = Path(place).resolve()
    return found


def tell(line: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {line}", flush=True)


def disturb(args: argparse.Namespace) -> int:
    control.ask(args.folder, args.verb, args.pods)
    return 0


def show(args: argparse.Namespace) -> int:
    for row in control.ask(args.folder, "list", [])["pods"]:
        print(" ".join(str(value) for value in row.values()))
    return 0


def execute(args: argparse.Namespace) -> int:
    """Does not return when the command starts."""
    if not args.words:
        raise UserError("exec: expected a command, found none")
    prefix = control.ask(args.folder, "into", [args.pod])["prefix"]
    words = args.words[1:] if args.words[0] == "--" else args.words
    os.execvp(prefix[0], [*prefix, *words])


if __name__ == "__main__":
    sys.exit(main())
