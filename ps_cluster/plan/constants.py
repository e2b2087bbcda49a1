"""The speeds and sizes of a machine that a plan computes with: stated defaults, or what `--calibrate` measured."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ps_cluster.errors import RunError, UserError

FORMAT_VERSION = 1


@dataclass(frozen=True)
class Constant:
    """A measurable number: its value where nothing was measured, its unit, what it is."""

    default: float
    unit: str
    about: str


CONSTANTS: Mapping[str, Constant] = {
    "ps_base_bytes": Constant(590e6, "B", "resident memory of a PS that holds no table and has no worker"),
    "ps_client_bytes": Constant(9e6, "B", "more of it once a worker has connected and the step's functions are there"),
    "worker_base_bytes": Constant(650e6, "B", "resident memory of a worker without data and model"),
    "model_bytes": Constant(80e6, "B", "more of it once a model is trained: graphs, what its layers keep"),
    "reader_base_bytes": Constant(250e6, "B", "resident memory of a process that decodes"),
    "ps_call_seconds": Constant(600e-6, "CPU-s", "of a PS for each worker's step and group of tables"),
    "ps_id_seconds": Constant(0.5e-6, "CPU-s", "of a PS for each id: received, found, read, sent, updated"),
    "ps_float_seconds": Constant(10e-9, "CPU-s", "more of it for each float32 of the embedding"),
    "worker_call_seconds": Constant(3e-3, "CPU-s", "of a worker for each step and group of tables"),
    "worker_id_seconds": Constant(0.5e-6, "CPU-s", "of a worker for each id: made one, sent, received, pushed"),
    "worker_float_seconds": Constant(10e-9, "CPU-s", "more of it for each float32 of the embedding"),
    "round_trip_seconds": Constant(2e-3, "s", "of a worker's step for its calls to the PS, whatever travels"),
    "call_overhead_bytes": Constant(6000.0, "B", "on the wire for each worker, PS and step beside ids and vectors"),
    "wire_overhead": Constant(1.001, "", "bytes on the wire over bytes of messages"),
    "read_row_seconds": Constant(3.0e-6, "CPU-s", "to decode a row of samples, whatever its width"),
    "read_byte_seconds": Constant(8e-9, "CPU-s", "more of it for each decoded byte"),
    "dense_flops": Constant(60e9, "1/s", "operations per second of a large product on one core"),
    "dense_share": Constant(0.25, "", "of that rate which a whole training step reaches"),
    "checkpoint_bytes_per_second": Constant(300e6, "B/s", "that a PS writes of a checkpoint"),
}


@dataclass(frozen=True)
class Constants:
    """values: by name, all of `CONSTANTS`. source: in words."""

    values: Mapping[str, float]
    source: str
    measured: frozenset[str] = frozenset()


def default_path() -> str:
    """Where `--calibrate` stores what it measures: below $XDG_CACHE_HOME, or ~/.cache."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(cache, "ps-cluster", "constants.json")


def defaults() -> Constants:
    return Constants(
        {name: one.default for name, one in CONSTANTS.items()},
        "stated defaults, not measured: `ps-cluster plan --calibrate` measures this machine",
    )


def store(path: str, measured: Mapping[str, float], machine: Mapping[str, Any]) -> None:
    """Writes the file, whole or not at all. Raises RunError."""
    body = {"format_version": FORMAT_VERSION, "machine": dict(machine), "constants": dict(sorted(measured.items()))}
    text = json.dumps({**body, "sha256": _digest(body)}, indent=1)
    folder = os.path.dirname(os.path.abspath(path))
    beside = ""
    try:
        os.makedirs(folder, exist_ok=True)
        descriptor, beside = tempfile.mkstemp(prefix=".constants-", dir=folder)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text + "\n")
        os.chmod(beside, 0o644)
        os.replace(beside, path)
    except OSError as error:
        if beside and os.path.exists(beside):
            os.unlink(beside)
        raise RunError(f"{path}: cannot write the constants: {error.strerror}") from error


def load(path: str | None) -> Constants:
    """What is stored at `path`; None: at the default place, where there may be nothing. Raises UserError for a file
    that is not there or is not what was written."""
    where = path or default_path()
    try:
        with open(where, encoding="utf-8") as file:
            text = file.read()
    except FileNotFoundError:
        if path is None:
            return defaults()
        raise UserError(
            f"{where}: expected constants that `ps-cluster plan --calibrate` wrote, found no file"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{where}: expected a readable file of constants, found: {error}") from None
    again = "; measure them again with `ps-cluster plan --calibrate`"
    try:
        found = json.loads(text)
        digest = found.pop("sha256")
        version, values = found["format_version"], found["constants"]
        good = digest == _digest(found)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise UserError(f"{where}: expected constants of format {FORMAT_VERSION}, found another file{again}") from None
    if version != FORMAT_VERSION:
        raise UserError(f"{where}: format_version: expected {FORMAT_VERSION}, found {version}{again}")
    if not good:
        raise UserError(f"{where}: sha256: expected that of the content, found another one: it was changed{again}")
    known = {name: float(values[name]) for name in CONSTANTS if name in values}
    machine = found.get("machine", {})
    return Constants(
        {**defaults().values, **known},
        f"measured on {machine.get('cpu', 'a machine')} ({machine.get('cores', '?')} cores) at "
        f"{machine.get('measured', '?')}: {where}",
        frozenset(known),
    )


def _digest(body: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
