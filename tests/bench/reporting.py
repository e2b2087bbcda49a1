"""How every benchmark is called and how it tells its results."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Result:
    """One comparison made in one run; `ratio` above 1 says that ours is better."""

    case: str
    ours: float
    theirs: float
    unit: str
    ratio: float
    answers_equal: bool
    compared: str  # what stood against what, with rows and repeats, for a person


def run_cases(subject: str, cases: Mapping[str, Callable[[bool], Result]]) -> int:
    """Runs the cases asked for on the command line; returns 1 when the two sides of any give different answers."""
    parser = argparse.ArgumentParser(prog=f"python -m tests.bench.{subject}")
    parser.add_argument("--case", nargs="+", choices=sorted(cases), metavar="NAME", help="only these, in one process")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    parser.add_argument("--full", action="store_true", help="the large run")
    args = parser.parse_args()
    wrong = False
    for name in args.case or sorted(cases):
        result = cases[name](args.full)
        wrong |= not result.answers_equal
        if args.json:
            fields = asdict(result)
            del fields["compared"]
            print(json.dumps(fields), flush=True)
            continue
        print(result.compared)
        print(f"  {name}: ours {result.ours:,.4g} {result.unit}, theirs {result.theirs:,.4g} {result.unit}")
        print(f"  ratio {result.ratio:.2f} (above 1: ours is better)", flush=True)
        if not result.answers_equal:
            print(f"  {name}: THE ANSWERS DIFFER", file=sys.stderr)
    return int(wrong)
