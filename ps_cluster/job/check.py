"""Rules of a job that hold between fields."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator

from data.where import WhereError, parse
from models.check import check_model
from ps_cluster.job.check_sampling import sampling_problems
from ps_cluster.job.check_tables import table_problems
from ps_cluster.job.draft import Draft
from ps_cluster.job.problems import Path, Problem, listed, near, quoted, suggestion
from ps_cluster.job.resolve import LENGTH_SUFFIX, column_of, inputs, label_column, output_width, table_name, time_column
from ps_cluster.job.schema import DenseFeature, IdFeature, IdListFeature

_MODEL_MESSAGE = re.compile(r"([\w.]+): expected (.*), found (.*)", re.DOTALL)


def problems(draft: Draft, folder: str) -> list[Problem]:
    """All broken rules of the parts of a job that are there; `folder` is the job file's."""
    found = [problem for rule in _RULES for problem in rule(draft)]
    found += _places(draft, folder)
    if not any(problem.path[:1] in (("features",), ("tables",)) for problem in found):
        found += _model(draft)
    return found


def _looked_up(draft: Draft) -> Iterator[tuple[Path, IdFeature | IdListFeature]]:
    for index, feature in enumerate(draft.features):
        if feature is not None and not isinstance(feature, DenseFeature):
            yield ("features", index), feature


def _feature_names(draft: Draft) -> Iterator[Problem]:
    first: dict[str, int] = {}
    for index, name in enumerate(draft.feature_names):
        if name is not None and first.setdefault(name, index) != index:
            yield Problem(
                ("features", index, "name"),
                "a name no other feature has",
                f"{quoted(name)}, as features[{first[name]}] is named",
            )


def _length_inputs(draft: Draft) -> Iterator[Problem]:
    lists = {feature.name for feature in draft.features if isinstance(feature, IdListFeature)}
    for index, name in enumerate(draft.feature_names):
        if name is not None and name.endswith(LENGTH_SUFFIX) and name[: -len(LENGTH_SUFFIX)] in lists:
            of = quoted(name[: -len(LENGTH_SUFFIX)])
            yield Problem(
                ("features", index, "name"),
                f"another name: the exported model takes the lengths of {of} under this one",
                quoted(name),
            )


def _stand_ins(draft: Draft) -> Iterator[Problem]:
    for index, feature in enumerate(draft.features):
        if feature is None or feature.missing is None:
            continue
        try:
            column_of(feature)
        except ValueError as error:  # ends with ": missing: expected …, found …"
            expected, _, found = str(error).partition("missing: expected ")[2].rpartition(", found ")
            yield Problem(("features", index, "missing"), expected, found)


def _feature_tables(draft: Draft) -> Iterator[Problem]:
    tables = draft.tables
    for path, feature in _looked_up(draft):
        if feature.table is None and feature.dim is None:
            yield Problem(path, f"'table' or 'dim' for feature {quoted(feature.name)}", "neither")
        elif feature.table is not None and feature.dim is not None:
            yield Problem((*path, "dim"), "either 'table' or 'dim'", f"both, and table {quoted(feature.table)}")
        elif tables is None:
            continue
        elif feature.table is not None and feature.table not in tables:
            known = f"one of the tables {listed(tables)}" if tables else "a table under 'tables', where there is none"
            yield Problem((*path, "table"), known, f"{quoted(feature.table)}{suggestion(feature.table, tables)}")
        elif feature.dim is not None and feature.name in tables:
            yield Problem(
                (*path, "dim"),
                f"'table' in place of 'dim', or no table {quoted(feature.name)} under 'tables'",
                f"both a table of the feature's own and a table {quoted(feature.name)}",
            )


def _unused_tables(draft: Draft) -> Iterator[Problem]:
    if draft.tables is None or not draft.features_known:
        return
    used = {feature.table for _, feature in _looked_up(draft)}
    # A table whose name is only misspelt in a feature is told there.
    misspelt = {near(table, draft.tables) for table in used if table is not None and table not in draft.tables}
    for name in draft.tables:
        if name not in used | misspelt:
            yield Problem(("tables", name), "a feature that uses the table", "none", of_key=True)


def _queries(draft: Draft) -> Iterator[Problem]:
    named = {feature.name: feature for feature in draft.features if feature is not None}
    all_named = bool(draft.feature_names) and None not in draft.feature_names
    ids = [name for name, feature in named.items() if isinstance(feature, IdFeature)]
    for path, feature in _looked_up(draft):
        if not isinstance(feature, IdListFeature) or feature.query is None:
            continue
        where = (*path, "query")
        if feature.pooling != "none":
            yield Problem(where, "'query' only with 'pooling: none'", f"'pooling: {feature.pooling}'")
            continue
        query = named.get(feature.query)
        if query is None:
            if all_named and feature.query not in draft.feature_names:
                yield Problem(
                    where,
                    f"one of the id features {listed(ids)}" if ids else "an id feature, of which there is none",
                    f"{quoted(feature.query)}{suggestion(feature.query, ids)}",
                )
        elif not isinstance(query, IdFeature):
            yield Problem(where, "a feature of 'kind: id'", f"{quoted(query.name)} of 'kind: {query.kind}'")
        else:
            wanted, given = _dim(feature, draft), _dim(query, draft)
            if wanted and given and wanted != given:
                yield Problem(
                    where,
                    f"a feature of this feature's dim, {wanted}",
                    f"{quoted(query.name)} of dim {given}",
                )


def _dim(feature: IdFeature | IdListFeature, draft: Draft) -> int | None:
    if feature.dim is not None or draft.tables is None:
        return feature.dim
    table = draft.tables.get(table_name(feature))
    return output_width(table) if table else None


def _columns(draft: Draft) -> Iterator[Problem]:
    label = label_column(draft.data.label) if draft.data else None
    first: dict[str, tuple[int, object]] = {}
    for index, feature in enumerate(draft.features):
        if feature is None:
            continue
        try:
            column = column_of(feature)
        except ValueError:  # told by _stand_ins
            continue
        where = ("features", index, "column" if feature.column else "name")
        if label is not None and column.name == label.name:
            yield Problem(where, "a column other than the label", quoted(column.name))
            continue
        earlier, read_as = first.setdefault(column.name, (index, column))
        twins = draft.feature_names[earlier] == feature.name  # told as such
        if read_as != column and not twins:
            yield Problem(
                where,
                f"the kind, 'missing' and 'max_length' of features[{earlier}], which reads the same column",
                f"column {quoted(column.name)} read in another way",
            )


def _processes(draft: Draft) -> Iterator[Problem]:
    cluster = draft.cluster
    if cluster is None:
        return
    if cluster.ps == 0 and cluster.workers != 1:
        yield Problem(("cluster", "workers"), "1 where 'ps' is 0", str(cluster.workers))
    given = {
        "ps_addresses": cluster.ps_addresses,
        "worker_addresses": cluster.worker_addresses,
        "rendezvous_address": cluster.rendezvous_address,
    }
    if all(addresses is None for addresses in given.values()):
        return
    needed = {
        "ps_addresses": cluster.ps > 0,
        "worker_addresses": True,
        "rendezvous_address": cluster.workers > 1,
    }
    present = [name for name, addresses in given.items() if addresses is not None]
    for name, is_needed in needed.items():
        if is_needed and given[name] is None:
            yield Problem(("cluster", name), f"{quoted(name)} beside {listed(present)}", "no such field")
    for name, count, field in (
        ("ps_addresses", cluster.ps, "ps"),
        ("worker_addresses", cluster.workers, "workers"),
    ):
        addresses = given[name]
        if addresses is not None and len(addresses) != count:
            yield Problem(
                ("cluster", name),
                f"{count} {'address' if count == 1 else 'addresses'}, as '{field}' says",
                str(len(addresses)),
            )


def _addresses(draft: Draft) -> Iterator[Problem]:
    cluster = draft.cluster
    if cluster is None:
        return
    places: list[tuple[Path, str]] = []
    for name, addresses in (
        ("ps_addresses", cluster.ps_addresses),
        ("worker_addresses", cluster.worker_addresses),
    ):
        places += [(("cluster", name, index), address) for index, address in enumerate(addresses or [])]
    if cluster.rendezvous_address is not None:
        places.append((("cluster", "rendezvous_address"), cluster.rendezvous_address))
    seen: set[str] = set()
    for path, address in places:
        port = int(address.rpartition(":")[2])
        if not 1 <= port <= 65535:
            yield Problem(path, "a port from 1 to 65535", str(port))
        if address in seen:
            yield Problem(path, "an address no other process has", quoted(address))
        seen.add(address)


def _schedule(draft: Draft) -> Iterator[Problem]:
    schedule = draft.schedule
    if schedule is None:
        return
    if schedule.decay == "none":
        for name in ("decay_steps", "final"):
            if name in schedule.model_fields_set and getattr(schedule, name) is not None:
                yield Problem(("schedule", name), f"a 'decay' beside {quoted(name)}", "'decay: none'")
        return
    if schedule.decay == "exponential" and schedule.final <= 0:
        yield Problem(("schedule", "final"), "a number above 0 with 'decay: exponential'", str(schedule.final))
    ends = {"schedule.decay_steps": schedule.decay_steps}
    if draft.training is not None:
        ends["training.max_steps"] = draft.training.max_steps
    for name, end in ends.items():
        if end is not None and schedule.warmup_steps >= end:
            yield Problem(
                ("schedule", "warmup_steps"),
                f"less than {name}, {end}, so that 'decay: {schedule.decay}' can begin",
                str(schedule.warmup_steps),
            )


def _weight_decay(draft: Draft) -> Iterator[Problem]:
    dense = draft.optimizers.dense if draft.optimizers else None
    if dense is not None and dense.name != "adamw" and dense.weight_decay > 0:
        yield Problem(
            ("optimizers", "dense", "weight_decay"),
            "'weight_decay' only with 'name: adamw'",
            f"'name: {dense.name}'",
        )


def _where(draft: Draft) -> Iterator[Problem]:
    if draft.data is None or draft.data.where is None:
        return
    try:
        parse(draft.data.where)
    except WhereError as error:
        expected, _, found = error.reason.partition(", found ")
        place = f"at character {error.position + 1} of {quoted(draft.data.where)}"
        yield Problem(("data", "where"), expected.removeprefix("expected "), f"{found or 'something else'}, {place}")


def _time(draft: Draft) -> Iterator[Problem]:
    if draft.data is None or draft.data.time is None:
        return
    column = time_column(draft.data.time)
    where = ("data", "time", "column")
    if column.name == draft.data.label:
        yield Problem(where, "a column other than the label", quoted(column.name))
    for index, feature in enumerate(draft.features):
        if feature is not None and (feature.column or feature.name) == column.name:
            if isinstance(feature, IdFeature) and feature.missing is None:
                continue
            expected = f"a column that no feature reads otherwise than as an integer without {quoted('missing')}"
            yield Problem(where, expected, f"{quoted(column.name)}, which features[{index}] reads")


def _checkpoints(draft: Draft) -> Iterator[Problem]:
    checkpoint = draft.checkpoint
    if checkpoint is None:
        return
    if checkpoint.deltas and checkpoint.every_steps is None and checkpoint.every_minutes is None:
        expected = "'every_steps' or 'every_minutes' beside 'deltas'"
        yield Problem(("checkpoint", "deltas"), expected, str(checkpoint.deltas))
    wanted = checkpoint.warm_start.tables if checkpoint.warm_start else None
    if wanted is None or draft.tables is None or not draft.features_known:
        return
    known = [*draft.tables, *(feature.name for _, feature in _looked_up(draft) if feature.dim)]
    for index, name in enumerate(wanted):
        if name not in known:
            yield Problem(
                ("checkpoint", "warm_start", "tables", index),
                f"one of the job's tables {listed(known)}" if known else "a table, of which the job has none",
                f"{quoted(name)}{suggestion(name, known)}",
            )


def _waits(draft: Draft) -> Iterator[Problem]:
    failures = draft.failures
    if failures is None or failures.long_wait_seconds >= failures.wait_seconds:
        return
    short, long = failures.wait_seconds, failures.long_wait_seconds
    if "long_wait_seconds" in failures.model_fields_set:
        yield Problem(("failures", "long_wait_seconds"), f"at least 'wait_seconds', {short}", str(long))
    else:
        expected = f"at most 'long_wait_seconds', which is {long} where the file does not say it"
        yield Problem(("failures", "wait_seconds"), expected, str(short))


def _failures(draft: Draft) -> Iterator[Problem]:
    if draft.failures is None or draft.failures.recovery != "shard":
        return
    where = ("failures", "recovery")
    if draft.training is not None and draft.training.sparse_updates == "asynchronous":
        # Of a step that was interrupted nobody could say which shards have it.
        yield Problem(where, "'job' beside 'sparse_updates: asynchronous'", "'shard'")
    if draft.cluster is not None and draft.cluster.ps == 0:
        yield Problem(where, "'job' where 'cluster.ps' is 0", "'shard'")


def _source(draft: Draft) -> Iterator[Problem]:
    data = draft.data
    if data is None:
        return
    if data.follow is None:
        if not data.train:
            yield Problem(("data",), "'train' or 'follow'", "neither", of_key=True)
        for name in ("poll_seconds", "idle_seconds"):
            if name in data.model_fields_set:
                yield Problem(("data", name), f"'follow' beside {quoted(name)}", "no such field", of_key=True)
        return
    where = ("data", "follow")
    if data.train:
        yield Problem(where, "either 'train' or 'follow'", "both", of_key=True)
    if data.drop_remainder:
        yield Problem(("data", "drop_remainder"), "false beside 'follow': each file would lose rows", "true")
    if data.sampling is not None:
        refused = {
            "presampled": data.sampling.presampled,
            "replay": data.sampling.replay is not None,
            "rules with newest_hours": any(rule.newest_hours for rule in data.sampling.rules),
        }
        for what, found in refused.items():
            if found:
                yield Problem(("data", "sampling"), "rates that no other file bears on, beside 'follow'", what)
    if draft.training is not None and draft.training.epochs != 1:
        yield Problem(("training", "epochs"), "1 beside 'data.follow'", str(draft.training.epochs))
    schedule = draft.schedule
    if schedule is not None and schedule.decay != "none" and schedule.decay_steps is None:
        expected = "'decay_steps' beside 'decay', as training with 'data.follow' has no last step"
        yield Problem(("schedule", "decay_steps"), expected, "no such field")


def _export(draft: Draft) -> Iterator[Problem]:
    export = draft.export
    if export is None:
        return
    if (export.every_checkpoints is None) == (export.every_minutes is None):
        found = "neither" if export.every_minutes is None else "both"
        yield Problem(("export",), "either 'every_checkpoints' or 'every_minutes'", found, of_key=True)
    if (export.form == "sharded") != (export.shards is not None):
        found = "no such field" if export.shards is None else str(export.shards)
        yield Problem(("export", "shards"), "'shards' with 'form: sharded', and with no other form", found)
    if export.delta and export.form == "sharded":
        yield Problem(("export", "delta"), "false with 'form: sharded', of which no deltas are made", "true")
    checkpoint = draft.checkpoint
    if checkpoint is not None and checkpoint.every_steps is None and checkpoint.every_minutes is None:
        expected = "'checkpoint.every_steps' or 'checkpoint.every_minutes' beside 'export'"
        yield Problem(("export",), expected, "neither", of_key=True)


def _sampling(draft: Draft) -> Iterator[Problem]:
    if draft.data is not None and draft.data.sampling is not None:
        yield from sampling_problems(draft.data.sampling, draft.data.label)


def _places(draft: Draft, folder: str) -> Iterator[Problem]:
    if draft.output is None:
        return
    if draft.output.startswith("~"):
        yield Problem(("output",), "a path without '~', which only a shell knows", quoted(draft.output))
        return
    output = os.path.normpath(os.path.join(folder, draft.output))
    if _holds(output, folder):
        yield Problem(("output",), "a folder that does not hold the job file", quoted(draft.output))
        return
    if draft.data is None:
        return
    named = [
        (f"data.{field}[{i}]", one) for field in ("train", "test") for i, one in enumerate(getattr(draft.data, field))
    ]
    named += [("data.follow", draft.data.follow)] if draft.data.follow is not None else []
    for where, pattern in named:
        if _holds(output, os.path.normpath(os.path.join(folder, pattern))):
            yield Problem(("output",), f"a folder without samples: {where} lies in it", quoted(draft.output))


def _holds(folder: str, path: str) -> bool:
    return os.path.commonpath([folder, path]) == folder


def _model(draft: Draft) -> Iterator[Problem]:
    tables = {name: table for name, table in (draft.tables or {}).items() if table is not None}
    if draft.model is None or not draft.features_known or draft.tables is None or len(tables) < len(draft.tables):
        return
    features = [feature for feature in draft.features if feature is not None]
    for message in check_model(draft.model, inputs(features, tables)):
        yield _model_problem(message)


def _model_problem(message: str) -> Problem:
    """`groups.2: expected …, found …` as a problem of `model.groups[2]`."""
    match = _MODEL_MESSAGE.fullmatch(message)
    if match is None:
        return Problem(("model",), "a model that fits the features", message)
    place, expected, found = match.groups()
    path = tuple(int(part) if part.isdigit() else part for part in place.split("."))
    return Problem(("model", *path), expected, found)


_RULES: tuple[Callable[[Draft], Iterator[Problem]], ...] = (
    _feature_names,
    _length_inputs,
    _stand_ins,
    _feature_tables,
    _unused_tables,
    _queries,
    _columns,
    _processes,
    _addresses,
    _schedule,
    _weight_decay,
    _where,
    _sampling,
    _time,
    table_problems,
    _checkpoints,
    _waits,
    _failures,
    _source,
    _export,
)
