"""A samples file on disk as a checked schema of samples."""

from __future__ import annotations

from pydantic import ValidationError

from data.convert.schema import SamplesSchema, broken_rules
from ps_cluster.errors import UserError
from ps_cluster.job.load import line_text, read_text
from ps_cluster.job.problems import Problem, found_text
from ps_cluster.job.words import described, problems_of
from ps_cluster.job.yaml_text import parse

_ROOT = SamplesSchema.model_json_schema()


def load_samples_file(path: str) -> SamplesSchema:
    """Reads and checks a samples file.

    Raises UserError with one line for every problem, in the order of the file's lines: `PATH:LINE: field: expected …,
    found …`.
    """
    document = parse(read_text(path, "a samples file"))
    if document.empty:
        raise UserError(f"{path}:1: expected {described(_ROOT, _ROOT)}, found an empty file")
    problems = [problem for problem in document.problems if not _is_tab(problem)]
    schema: SamplesSchema | None = None
    if not isinstance(document.value, dict):
        if not problems:
            problems.append(Problem((), described(_ROOT, _ROOT), found_text(document.value)))
    else:
        try:
            schema = SamplesSchema.model_validate(document.value, strict=True)
            problems += [Problem(*rule) for rule in broken_rules(schema)]
        except ValidationError as error:
            # A value that YAML itself gave away is not reported twice.
            told = {problem.path for problem in problems if not problem.of_key}
            problems += [p for p in problems_of(error, document.value, _ROOT) if p.path not in told]
    if problems or schema is None:
        lines = sorted((document.line(problem), order, problem) for order, problem in enumerate(problems))
        raise UserError("\n".join(line_text(path, line, problem) for line, _, problem in lines))
    return schema


def _is_tab(problem: Problem) -> bool:
    """Whether it is a tab as a separator that YAML's reader takes for a slip."""
    return problem.path[-1:] == ("separator",) and problem.found == found_text("\t")
