"""`ps-cluster data sample`: what a job's sampling keeps of its training data."""

from __future__ import annotations

import argparse
import json

from ps_cluster.cli.data.progress import Progress
from ps_cluster.errors import UserError

_ABOUT = (
    "Draws the rows that `data.sampling` of a job file keeps of its training data, exactly those that training would "
    "draw. --dry-run only counts them; else they are written as ORC files with the columns sample_weight and "
    "sample_offset. The log-odds of a row before sampling are those among the sampled rows plus sample_offset."
)


def add_parser(kinds: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the kind to `ps-cluster data`."""
    parser = kinds.add_parser("sample", help="count or write the rows that a job's sampling keeps", description=_ABOUT)
    parser.add_argument("job", metavar="job.yaml", help="job file with data.sampling")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--dry-run", action="store_true", help="only count: rows by rule, band and day")
    what.add_argument("--out", metavar="DIR", help="folder to write the kept rows to; must not exist or be empty")
    parser.add_argument("--json", action="store_true", help="print the counts as JSON")
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    from data.paths import expand
    from data.sampled_files import METADATA, count_sampled, write_sampled
    from ps_cluster.job.load import load_job
    from ps_cluster.job.sampling import Resolved, sampling_of
    from ps_cluster.report.sampled import summary_of, table_of

    job_file = load_job(args.job)
    section = job_file.job.data.sampling
    if section is None:
        raise UserError(f"{args.job}: data: expected 'sampling', found no such field")
    if section.presampled:
        raise UserError(f"{args.job}: data.sampling.presampled: expected false, as rows are to be drawn, found true")
    paths = expand(job_file.job.data.train, job_file.folder)
    with Progress("ages") as progress:
        resolved = sampling_of(job_file, paths, progress.show)
    assert isinstance(resolved, Resolved)  # asked above
    groups = [part.group_of for part in resolved.parts]
    with Progress("sampling") as progress:
        if args.dry_run:
            counts = count_sampled(resolved.sampling, groups, paths, resolved.where, progress.show)
        else:
            told = {METADATA: json.dumps(resolved.record())}
            counts = write_sampled(resolved.sampling, groups, paths, args.out, told, resolved.where, progress.show)
    summary = summary_of(resolved, counts)
    print(json.dumps(summary, indent=1) if args.json else "\n".join(table_of(summary)))
    return 0
