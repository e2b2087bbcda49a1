"""`ps-cluster schema`: the JSON schema of job files or samples files, for editors and for people."""

from __future__ import annotations

import argparse
import json
from typing import Any

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds `schema` to the command line."""
    parser = subparsers.add_parser("schema", help="print the JSON schema of job files or samples files")
    parser.add_argument("--samples", action="store_true", help="of samples files, which `data convert` takes")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Prints the schema."""
    print(json.dumps(samples_schema() if args.samples else job_schema(), indent=2))
    return 0


def job_schema() -> dict[str, Any]:
    """The job file's JSON schema, draft 2020-12."""
    from ps_cluster.job.schema import Job

    return {"$schema": DIALECT, **Job.model_json_schema()}


def samples_schema() -> dict[str, Any]:
    """The samples file's JSON schema, draft 2020-12."""
    from data.convert.schema import SamplesSchema

    return {"$schema": DIALECT, **SamplesSchema.model_json_schema()}
