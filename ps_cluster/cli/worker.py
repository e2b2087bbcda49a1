"""`ps-cluster worker`: be one worker of a cluster."""

from __future__ import annotations

import argparse
import faulthandler
import os
import sys
import traceback

from ps_cluster.job import membership
from ps_cluster.launch.cause import is_consequence
from ps_cluster.launch.last_words import ERROR_MARK


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to those of `ps-cluster`."""
    parser = subparsers.add_parser(
        "worker",
        help="run one worker",
        description="Train a job as one of its workers. Its place in the cluster comes from the flags, else from "
        "TF_CONFIG, else from the addresses in the job file.",
    )
    parser.add_argument("job", metavar="job.yaml", help="job file")
    membership.add_arguments(parser)
    parser.add_argument("--resume", action="store_true", help="go on from the newest whole checkpoint, if there is one")
    parser.add_argument("--events", metavar="FILE", help="worker 0: append what happens to FILE, as JSON lines")
    parser.add_argument("--report", metavar="FILE", help="worker 0: write a report of the run, as JSON")
    parser.add_argument(
        "--done-file",
        metavar="FILE",
        help="worker 0: when the PS are needed no more, write FILE on their machines; who has lost another one then "
        "ends with status 75, start me again",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Train; ends the process itself."""
    from ps_cluster.launch.pdeathsig import die_with_launcher

    die_with_launcher()
    faulthandler.enable()  # a crash in native code says at least what Python was doing
    from data.errors import DataError
    from ps_cluster.errors import RESTART, RestartMe, RunError, UserError
    from ps_cluster.quiet import import_tensorflow

    import_tensorflow()
    from ops.library import LibraryError, load
    from ps_cluster.job.load import load_job
    from ps_cluster.roles.worker import run_worker

    code = 0
    try:
        load()
        job_file = load_job(args.job)
        place = membership.membership_of(args, "worker", job_file.job.cluster)
        run_worker(job_file, place, args.events, args.report, args.resume, args.done_file)
    except (UserError, DataError) as error:
        _tell(error)
        code = 2
    except RestartMe as error:
        print(error, file=sys.stderr)
        code = RESTART
    except (RunError, LibraryError) as error:
        _tell(error)
        # Who starts pods again counts the one that failed, not those that missed it.
        code = RESTART if args.done_file is not None and is_consequence(str(error)) else 1
    except BaseException:
        traceback.print_exc()
        code = 1
    # Horovod's exit handler waits for the other workers, who may never come.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _tell(error: Exception) -> None:
    """Errors go where the lines of progress went before: the mark tells a launcher where the message starts."""
    print(f"{ERROR_MARK}{error}", file=sys.stderr)
