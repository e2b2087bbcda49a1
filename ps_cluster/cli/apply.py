"""`ps-cluster apply`: the version of an export that a delta leads to, made where it is served."""

from __future__ import annotations

import argparse


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to those of `ps-cluster`."""
    parser = subparsers.add_parser(
        "apply",
        help="make the version that a delta of an export leads to",
        description="Make the version that a delta (`ps-cluster export --since`) leads to, of the version that it is "
        "based on, and print its folder. It appears whole or not at all; the earlier version stays.",
    )
    parser.add_argument("delta", metavar="DELTA", help="folder of the delta")
    parser.add_argument(
        "--to", metavar="DIR", help="folder of versions with the delta's base (default: the one that DELTA lies in)"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Apply; prints the new version's folder."""
    from ps_cluster.launch.pdeathsig import die_with_launcher

    die_with_launcher()
    from ps_cluster.quiet import held_output, import_tensorflow

    import_tensorflow(gpu=False, tfra=False)
    from ps_cluster.export.delta_apply import apply_delta
    from ps_cluster.export.sharded_delta_apply import apply_sharded_delta, is_sharded_delta
    from ps_cluster.roles.readable import readable_errors

    apply = apply_sharded_delta if is_sharded_delta(args.delta) else apply_delta
    with readable_errors(pages=False), held_output():
        folder = apply(args.delta, args.to)
    print(folder)
    return 0
