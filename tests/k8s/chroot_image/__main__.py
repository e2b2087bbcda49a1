"""`python -m tests.k8s.chroot_image build FOLDER` builds the image without a container engine; `demo` trains in it."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import NoReturn

from ps_cluster.errors import RunError, UserError
from tests.k8s.chroot_image import debian
from tests.k8s.chroot_image.build import build, open_image
from tests.k8s.chroot_image.container import ROOT, run
from tests.k8s.chroot_image.demo import run_demo
from tests.k8s.chroot_image.mirrors import of_this_machine


def main(argv: Sequence[str] | None = None) -> int:
    """Exit codes: 0; 1 a command failed; 2 what was given is wrong or cannot be carried out; 130, 143 after Ctrl-C,
    SIGTERM. `run` ends as its command ends."""
    args = _parser().parse_args(argv)
    signal.signal(signal.SIGTERM, _terminated)
    try:
        if os.geteuid() != 0:
            raise UserError("expected root, which may make namespaces: sudo .venv/bin/python -m …")
        return args.do(args)
    except UserError as error:
        print(error, file=sys.stderr)
        return 2
    except RunError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt as error:
        print("interrupted; nothing of it runs on", file=sys.stderr)
        return 128 + (error.args[0] if error.args else signal.SIGINT)


def _parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="python -m tests.k8s.chroot_image", description=__doc__)
    verbs = top.add_subparsers(metavar="COMMAND", required=True)
    building = verbs.add_parser("build", help="build the image in a folder")
    building.add_argument("--file", type=Path, default=ROOT / "k8s" / "Dockerfile", help="default: k8s/Dockerfile")
    building.add_argument("--context", type=Path, default=ROOT, help="folder that COPY copies from; default: checkout")
    building.add_argument("--build-arg", action="append", default=[], metavar="NAME=VALUE", help="value of an ARG")
    building.set_defaults(do=_build)
    running = verbs.add_parser("run", help="run a command in it, as a pod does: only volumes and /tmp are writable")
    running.add_argument("--volume", action="append", default=[], metavar="FOLDER:PLACE", help="a folder to write to")
    running.set_defaults(do=_run)
    demo = verbs.add_parser("demo", help="make the samples of MovieLens in it, train and export")
    demo.add_argument("--volume", type=Path, required=True, metavar="FOLDER", help="where samples and results go")
    demo.set_defaults(do=_demo)
    for one in (building, running, demo):
        one.add_argument("folder", type=Path, metavar="FOLDER", help="of the image")
    running.add_argument("words", nargs=argparse.REMAINDER, metavar="ARGUMENT", help="default: the image's CMD")
    return top


def _build(args: argparse.Namespace) -> int:
    given = dict(_pair(text, "=", "--build-arg NAME=VALUE") for text in args.build_arg)
    build(args.file, args.context, args.folder, given, of_this_machine(debian.RELEASE))
    print(f"the image lies in {args.folder}")
    return 0


def _run(args: argparse.Namespace) -> int:
    image = open_image(args.folder)
    volumes = [_pair(text, ":", "--volume FOLDER:PLACE") for text in args.volume]
    binds = [(Path(folder), place) for folder, place in volumes]
    argv = [*image.config.entry, *(args.words or image.config.command)]
    return run(image.tree, argv, image.config, of_this_machine(debian.RELEASE), binds)


def _demo(args: argparse.Namespace) -> int:
    report = run_demo(open_image(args.folder), args.volume, of_this_machine(debian.RELEASE))
    print(f"AUC {report['auc']:.4f} of {report['test_rows']} test rows; the results lie in {args.volume}")
    return 0


def _pair(text: str, sign: str, expected: str) -> tuple[str, str]:
    first, found, second = text.partition(sign)
    if not first or not found:
        raise UserError(f"expected {expected}, found {text}")
    return first, second


def _terminated(number: int, frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt(number)


if __name__ == "__main__":
    sys.exit(main())
