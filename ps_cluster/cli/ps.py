"""`ps-cluster ps`: be one parameter server of a cluster."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from threading import Event
from typing import TYPE_CHECKING

from ps_cluster.job import membership

if TYPE_CHECKING:
    from ps_cluster.job.resolve import JobFile


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to those of `ps-cluster`."""
    parser = subparsers.add_parser(
        "ps",
        help="run one parameter server",
        description="Run one parameter server until SIGTERM. Its place in the cluster comes from the flags, "
        "else from TF_CONFIG, else from the addresses in the job file.",
    )
    parser.add_argument("job", nargs="?", metavar="JOB", help="job file; its PS and worker counts are checked")
    membership.add_arguments(parser)
    parser.add_argument(
        "--until-done",
        metavar="FILE",
        help="end when FILE is there, which `ps-cluster worker --done-file FILE` writes on each PS; with status 1 when "
        "worker 0 cannot be reached for 15 minutes; after SIGTERM with status 75, start me again, as soon as the "
        "workers have ended",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Serve until told to end."""
    from ps_cluster.launch.pdeathsig import die_with_launcher

    die_with_launcher()
    from ps_cluster.roles.ps import load_own_ops, run_ps

    cluster = job_file = None
    libraries: list[Callable[[], object]] = [load_own_ops]
    if args.job is not None:
        from ps_cluster.job.load import load_job

        job_file = load_job(args.job)
        cluster = job_file.job.cluster
        libraries.append(lambda: _load_file_systems(job_file))
    place = membership.membership_of(args, "ps", cluster)
    until = _until(place, args.until_done)
    if job_file is None:
        run_ps(place, libraries, until=until)
    from ps_cluster.watch.health import PsHealth
    from ps_cluster.watch.serving import serve_figures

    health = PsHealth(place.port)
    run_ps(place, libraries, lambda: serve_figures(job_file, place, health=health), until)


def _until(place: membership.Membership, done_file: str | None) -> Callable[[Event], int] | None:
    if done_file is None:
        return None
    from ps_cluster.roles.until_done import forget_done, wait_until_done

    forget_done(done_file)
    return lambda told_to_end: wait_until_done(place, done_file, told_to_end)


def _load_file_systems(job_file: JobFile) -> None:
    """A PS writes its part of a checkpoint itself."""
    from ps_cluster.checkpoint.storage import load_file_systems

    load_file_systems(*job_file.checkpoint_places)
