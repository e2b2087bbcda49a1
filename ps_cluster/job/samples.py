"""The samples that a job names: how they are read, and whether their files are what the job says."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from data.errors import DataError
from data.files import describe, is_address
from data.follow import check_followable
from data.paths import expand
from data.read.footers import Footer, column_problems, read_each
from data.read.pruning import Pruned, prune_each
from data.read.read_spec import ReadSpec
from data.sample.sampling import Sampling
from data.sample.sampling import column_problems as rate_problems
from data.where import Where, parse, type_problems
from ps_cluster.job.problems import Path, Problem, path_text
from ps_cluster.job.resolve import JobFile, column_of, columns_of, label_column, time_column, training_columns_of
from ps_cluster.job.sampling import popularity_path, time_problems
from ps_cluster.job.schema import Job
from ps_cluster.job.yaml_text import parse as parse_yaml

_SHOWN = 20
_FOLLOWED: Path = ("data", "follow")


def read_spec(
    job: Job, paths: tuple[str, ...], *, training: bool = False, sampling: Sampling | None = None
) -> ReadSpec:
    """All rows of `paths`: shuffled, sampled and repeated for training, else once in the files' order."""
    data = job.data
    spec = ReadSpec(
        paths=paths,
        columns=tuple(training_columns_of(job) if training else columns_of(job)),
        batch_rows=job.training.batch_size,
        seed=job.training.seed,
        where=where_of(job),
        on_bad=data.on_bad,
        reader=data.reader,
        decode_threads=0 if data.decode_threads == "auto" else data.decode_threads,
        prefetch_batches=0 if data.prefetch_batches == "auto" else data.prefetch_batches,
        verify_checksums=data.verify_checksums,
    )
    if not training:
        return spec
    return replace(
        spec,
        epochs=job.training.epochs,
        shuffle_rows=data.shuffle_rows,
        interleave_stripes=data.interleave_stripes,
        stripe_slices=data.stripe_slices,
        drop_remainder=data.drop_remainder,
        sampling=sampling,
    )


def where_of(job: Job) -> Where | None:
    """The condition that rows have to meet."""
    return parse(job.data.where) if job.data.where is not None else None


@dataclass
class Looked:
    """What a look at the files' footers has found."""

    files: int = 0
    """Those that can be read."""
    rows: int = 0
    pruned: Pruned | None = None
    """How many of the rows may meet the condition, by what the files say of them; None without a condition."""
    problems: list[str] = field(default_factory=list)
    """A line each, in the order of the job file's lines."""


def look_at_samples(job_file: JobFile) -> Looked:
    """Compares the job's columns and condition with the footers of the files that are there, on this machine's disks.

    Files that are not there are no problem: a job may be checked far from its samples. `absent_samples` names them.
    """
    document = parse_yaml(job_file.text)
    looked = Looked()
    told: dict[tuple[Path, str], tuple[str, int]] = {}
    good: list[tuple[Footer, Path]] = []
    for named, pattern in _local_samples(job_file.job):
        if named == _FOLLOWED and os.path.isdir(job_file.place(pattern)):
            pattern = os.path.join(glob.escape(job_file.place(pattern)), "[!.]*.orc")
        try:
            paths = expand([pattern], job_file.folder)
        except DataError:
            continue
        for path, footer in zip(paths, read_each(paths)):
            if isinstance(footer, DataError):
                told[named, path] = str(footer), 1
                continue
            looked.files += 1
            looked.rows += sum(stripe.rows for stripe in footer.stripes)
            problems = list(_problems(job_file.job, footer))
            if named[1] in ("train", "follow"):
                problems += _time_problems(job_file.job, footer)
                problems += _sampling_problems(job_file.job, footer)
            for place, problem in problems:
                kind = place, problem.removeprefix(path)  # once for all files
                first, files = told.get(kind, (problem, 0))
                told[kind] = first, files + 1
            if not problems:
                good.append((footer, named))
    for (footer, place), found in zip(good, _pruned(job_file.job, [footer for footer, _ in good])):
        if isinstance(found, DataError):
            told[place, footer.path] = str(found), 1
        else:
            looked.pruned = (looked.pruned or Pruned()) + found
    if looked.files:
        told.update({(place, ""): (problem, 1) for place, problem in _popularity_problems(job_file)})
    lines = []
    for (place, _), (problem, files) in told.items():
        line = document.line(Problem(place, "", ""))
        more = f" (and in {files - 1} more {'file' if files == 2 else 'files'})" if files > 1 else ""
        lines.append((line, f"{job_file.path}:{line}: {path_text(place)}: {problem}{more}"))
    lines.sort(key=lambda one: one[0])
    looked.problems = [text for _, text in lines[:_SHOWN]]
    if len(lines) > _SHOWN:
        looked.problems.append(f"{job_file.path}: and {len(lines) - _SHOWN} more problems")
    return looked


def absent_samples(job_file: JobFile) -> list[str]:
    """What the job names on this machine's disks and is not there, or not whole: a line each, with the job's line."""
    document = parse_yaml(job_file.text)
    lines = []
    for place, pattern in _local_samples(job_file.job):
        try:
            if place == _FOLLOWED:
                check_followable(job_file.place(pattern))
                continue
            expand([pattern], job_file.folder)
        except DataError as error:
            start = f"{job_file.path}:{document.line(Problem(place, '', ''))}: {path_text(place)}: "
            lines += [start + line for line in str(error).splitlines()]
    return lines


def _local_samples(job: Job) -> Iterator[tuple[Path, str]]:
    """Places in the job, and the files or folders named there; no addresses."""
    for side in ("train", "test"):
        for number, pattern in enumerate(getattr(job.data, side)):
            if not is_address(pattern):
                yield ("data", side, number), pattern
    if job.data.follow is not None and not is_address(job.data.follow):
        yield _FOLLOWED, job.data.follow


def _pruned(job: Job, footers: Sequence[Footer]) -> list[Pruned | DataError]:
    """What the condition leaves of each file, or what is wrong with it; nothing without a condition."""
    where = where_of(job)
    if where is None:
        return []
    found = prune_each(footers, where, job.data.verify_checksums, keep_damaged=job.data.on_bad == "skip")
    return [one if isinstance(one, DataError) else one[1] for one in found]


def _problems(job: Job, footer: Footer) -> Iterator[tuple[Path, str]]:
    """Places in the job, and how the file differs from what is said there."""
    for problem in column_problems(footer, [label_column(job.data.label)]):
        yield ("data", "label"), problem
    where = where_of(job)
    for problem in type_problems(where, footer.schema, footer.path) if where else []:
        yield ("data", "where"), problem
    for index, feature in enumerate(job.features):
        for problem in column_problems(footer, [column_of(feature)]):
            yield ("features", index, "column" if feature.column else "name"), problem


def _time_problems(job: Job, footer: Footer) -> Iterator[tuple[Path, str]]:
    if job.data.time is not None:
        for problem in column_problems(footer, [time_column(job.data.time)]):
            yield ("data", "time", "column"), problem


def _sampling_problems(job: Job, footer: Footer) -> Iterator[tuple[Path, str]]:
    """Like `_problems`, of the columns by which training rows are sampled."""
    section = job.data.sampling
    if section is None:
        return
    place: Path = ("data", "sampling")
    if section.time and (section.replay or any(rule.newest_hours for rule in section.rules)):
        for problem in time_problems(section.time.column, footer.schema, footer.path):
            yield (*place, "time", "column"), problem
    for index, rule in enumerate(section.rules):
        for problem in type_problems(parse(rule.when), footer.schema, footer.path) if rule.when else []:
            yield (*place, "rules", index, "when"), problem
        if rule.bands:  # their column is a number or boolean, as a label is
            for problem in rate_problems(Sampling(rule.bands.column, 0, ()), footer.schema, footer.path):
                yield (*place, "rules", index, "bands", "column"), problem


def _popularity_problems(job_file: JobFile) -> Iterator[tuple[Path, str]]:
    """Counts of ids that are not there; the samples are, so they should be too."""
    section = job_file.job.data.sampling
    for index, rule in enumerate(section.rules if section else ()):
        if rule.bands and rule.bands.popularity:
            path = popularity_path(rule.bands, job_file.folder)
            if describe([path])[0].kind != "file":
                place = ("data", "sampling", "rules", index, "bands", "popularity")
                yield place, f"{path}: expected counts of ids, which `ps-cluster data popularity` writes, found no file"
