"""`ps-cluster data sample`: what a job's sampling keeps of its training data."""

from __future__ import annotations

import argparse
import json
import sys

from ps_cluster.cli.data.progress import Progress
from ps_cluster.errors import UserError

_ABOUT = (
    "Draws the rows that `data.sampling` of a job file keeps of its training data, exactly those that training would "
    "draw; `data.where` and `data.on_bad` hold as in training. --dry-run only counts them; else they are written as "
    "ORC files with the columns sample_weight and sample_offset. The log-odds of a row before sampling are those among "
    "the sampled rows plus sample_offset."
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
    from dataclasses import replace

    from data.paths import expand
    from data.read.plan import check
    from data.read.read_spec import ReadSpec
    from data.sample.sampled_files import METADATA, count_sampled, write_sampled
    from data.where import parse
    from ps_cluster.job.load import load_job
    from ps_cluster.job.resolve import training_columns_of, training_patterns
    from ps_cluster.job.sampling import Resolved, sampling_of
    from ps_cluster.report.sampled import summary_of, table_of

    job_file = load_job(args.job)
    section = job_file.job.data.sampling
    if section is None:
        raise UserError(f"{args.job}: data: expected 'sampling', found no such field")
    if section.presampled:
        raise UserError(f"{args.job}: data.sampling.presampled: expected false, as rows are to be drawn, found true")
    data = job_file.job.data
    columns = training_columns_of(job_file.job)
    spec = ReadSpec(
        paths=tuple(expand(training_patterns(job_file.job), job_file.folder)),
        columns=tuple(columns),
        batch_rows=job_file.job.training.batch_size,
        where=parse(data.where) if data.where is not None else None,
        on_bad=data.on_bad,
    )
    with Progress("ages") as progress:
        resolved = sampling_of(job_file, [footer.path for footer in check(spec).footers], progress.show)
    assert isinstance(resolved, Resolved)  # asked above
    checked = check(replace(spec, sampling=resolved.sampling))  # it may need more columns
    for path, reason in checked.lost:
        print(f"left out: {reason if path in reason else f'{path}: {reason}'}", file=sys.stderr)
    paths = [footer.path for footer in checked.footers]
    groups = [part.group_of for part in resolved.parts]
    skip_bad = columns if data.on_bad == "skip" else None
    with Progress("sampling") as progress:
        if args.dry_run:
            counts = count_sampled(resolved.sampling, groups, paths, resolved.where, progress.show, skip_bad)
        else:
            told = {METADATA: json.dumps(resolved.record())}
            counts = write_sampled(
                resolved.sampling, groups, paths, args.out, told, resolved.where, progress.show, skip_bad
            )
    summary = summary_of(resolved, counts)
    print(json.dumps(summary, indent=1) if args.json else "\n".join(table_of(summary)))
    return 0
