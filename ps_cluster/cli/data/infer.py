"""`ps-cluster data infer`: a draft of a samples file."""

from __future__ import annotations

import argparse
import os

from ps_cluster.errors import UserError

_INFER = (
    "Looks at a sample of rows and proposes a samples file for `ps-cluster data convert`: what each column is, how "
    "sure that is and why, as comments. Read it before you use it."
)


def add_parser(kinds: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the kind to `ps-cluster data`."""
    infer = kinds.add_parser("infer", help="propose a samples file for files to convert", description=_INFER)
    infer.add_argument("sources", metavar="SOURCE", nargs="+", help="files, folders or globs of one format")
    infer.add_argument("--out", metavar="FILE", help="where to write it (default: standard output)")
    infer.add_argument(
        "--format",
        choices=("auto", "tfrecord", "csv", "tsv", "parquet", "orc"),
        default="auto",
        help="format of the sources (default: by name or content)",
    )
    infer.add_argument("--overwrite", action="store_true", help="replace FILE")
    infer.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    from data.convert.infer import infer

    if args.out is not None:
        _check_out(args.out, args.overwrite)
    draft = infer(args.sources, form=args.format)
    if args.out is None:
        print(draft.text, end="")
        return 0
    beside = f"{args.out}.{os.getpid()}.partial"
    try:
        with open(beside, "w", encoding="utf-8") as file:
            file.write(draft.text)
        os.replace(beside, args.out)
    except BaseException:
        if os.path.exists(beside):
            os.unlink(beside)
        raise
    unsure = [proposal for proposal in draft.proposals if proposal.sure < 0.9]
    told = f"{len(unsure)} of them less than 90 % sure" if unsure else "each at least 90 % sure"
    print(f"{args.out}  {len(draft.proposals)} columns, {told}; read it, then `ps-cluster data convert`")
    for proposal in unsure:
        name, kind = proposal.fields["name"], proposal.fields["kind"]
        print(f"  {proposal.sure:4.0%}  {name}: {kind} ({proposal.why})")
    return 0


def _check_out(path: str, overwrite: bool) -> None:
    if not path or not os.path.isdir(os.path.dirname(os.path.abspath(path))):
        raise UserError(f"--out: expected a file in a folder that exists, found {path!r}")
    if os.path.isdir(path):
        raise UserError(f"--out: expected a file, found the folder {path}")
    if os.path.lexists(path) and not overwrite:
        raise UserError(f"{path}: expected a new file, found one; --overwrite replaces it")
