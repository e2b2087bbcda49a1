"""A job file on disk as a checked job."""

from __future__ import annotations

import os

from pydantic import ValidationError

from ps_cluster.errors import UserError
from ps_cluster.job.check import problems as broken_rules
from ps_cluster.job.draft import draft_of_job, draft_of_values
from ps_cluster.job.problems import Problem, found_text, path_text
from ps_cluster.job.resolve import JobFile
from ps_cluster.job.schema import Job
from ps_cluster.job.words import ROOT, described, problems_of
from ps_cluster.job.yaml_text import Document, parse

LARGEST_BYTES = 4 * 2**20


def load_job(path: str | os.PathLike[str]) -> JobFile:
    """Reads and checks a job file.

    Errors: UserError with one line for every problem of the file, in the order of its lines:
    `PATH:LINE: field: expected …, found …`. The line is the wrong value's, or that of the mapping
    a field is absent from.
    """
    shown = os.fspath(path)
    text = read_text(shown, "a job file")
    folder = os.path.dirname(os.path.abspath(shown))
    document = parse(text)
    if document.empty:
        raise UserError(f"{shown}:1: expected {described(ROOT)}, found an empty file")
    job, problems = check_document(document, folder)
    if job is None:
        lines = sorted((document.line(problem), order, problem) for order, problem in enumerate(problems))
        raise UserError("\n".join(line_text(shown, line, problem) for line, _, problem in lines))
    return JobFile(job=job, path=shown, folder=folder, text=text)


def check_document(document: Document, folder: str) -> tuple[Job | None, list[Problem]]:
    """The document's job, or every problem it has."""
    found = list(document.problems)
    value = document.value
    if value is None and found:
        return None, found
    if not isinstance(value, dict):
        return None, [*found, Problem((), described(ROOT), found_text(value))]
    job: Job | None = None
    try:
        job = Job.model_validate(value, strict=True)
    except ValidationError as error:
        # A value that YAML itself gave away is not reported twice.
        told = {problem.path for problem in found if not problem.of_key}
        found += [problem for problem in problems_of(error, value) if problem.path not in told]
    if job is not None and not found:
        found = broken_rules(draft_of_job(job), folder)
        return (None, found) if found else (job, [])
    return None, found + broken_rules(draft_of_values(value, {problem.path for problem in found}), folder)


def read_text(path: str, what: str) -> str:
    """The text of a file that a person wrote; `what` it is, in errors. Raises UserError."""
    try:
        with open(path, "rb") as file:
            raw = file.read(LARGEST_BYTES + 1)
    except FileNotFoundError:
        raise UserError(f"{path}: expected {what}, found no such file") from None
    except IsADirectoryError:
        raise UserError(f"{path}: expected {what}, found a folder") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise UserError(f"{path}: expected {what} that can be read, found: {reason}") from None
    if len(raw) > LARGEST_BYTES:
        raise UserError(f"{path}: expected {what} of at most {LARGEST_BYTES} bytes, found a larger one")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise UserError(f"{path}:{line}: expected UTF-8 text, found other bytes") from None


def line_text(path: str, line: int, problem: Problem) -> str:
    """A problem as a line for people."""
    field = f"{path_text(problem.path)}: " if problem.path else ""
    return f"{path}:{line}: {field}expected {problem.expected}, found {problem.found}"
