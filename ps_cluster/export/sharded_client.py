"""A client of the sharded form: ids to the servers that have their rows, their vectors to the one that scores.

Nothing here knows how a server is reached: a server is a function from inputs by name to outputs by name, of a
SavedModel in this process or of a request over a network.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ops.lookup_concat import mix
from ps_cluster.export.description import Description
from ps_cluster.export.ordered_rows import shard_of
from ps_cluster.job.resolve import LENGTH_SUFFIX

DENSE = "dense"
"""The name of the model that scores."""

Call = Callable[[Mapping[str, np.ndarray]], Mapping[str, np.ndarray]]
"""A server: from inputs by name to outputs by name."""


def shard_name(number: int, shards: int) -> str:
    """The name of the model with the rows of a shard."""
    return f"shard-{number}-of-{shards}"


class ShardedClient:
    """Scores requests: a request to each shard for the ids of all features, each id once, then one to `dense`."""

    def __init__(self, description: Description, dense: Call, shards: Sequence[Call]):
        """description: of `dense`. shards: in their order, all of them, of the same version."""
        if description.kind != "dense" or len(shards) != description.shards:
            raise ValueError(f"expected {description.shards} shards of a sharded export, found {len(shards)}")
        self._description = description
        self._dense = dense
        self._shards = list(shards)
        self._features: dict[str, list[str]] = {name: [] for name in description.tables}
        for feature, table in (description.table_of or {}).items():
            self._features[table].append(feature)
        self._most = {feature.name: feature.max_length for feature in description.features}

    def score(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """From inputs as a SavedModel in one piece takes them to `logit` and `probability`, float32 `[batch]`."""
        of_table = {table: self._ids(table, inputs) for table in self._features}
        vectors = self._look_up({table: unique for table, (unique, _) in of_table.items()})
        request = dict(inputs)
        for table, (_, positions) in of_table.items():
            assert self._description.inputs is not None
            request[self._description.inputs[table]] = vectors[table]
            request.update(positions)
        return dict(self._dense(request))

    def _ids(self, table: str, inputs: Mapping[str, np.ndarray]) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """The ids of a table, each once, int64 `[n]`, and by feature where its ids stand among them."""
        counted = {}
        for feature in self._features[table]:
            ids = np.asarray(inputs[feature])
            # Padding and what is cut from lists is never asked for.
            counted[feature] = self._counts(feature, ids, inputs) if ids.ndim == 2 else np.ones(ids.shape, bool)
        asked = [np.asarray(inputs[feature])[counts] for feature, counts in counted.items()]
        unique, places = np.unique(np.concatenate([np.zeros(0, np.int64), *asked]), return_inverse=True)
        positions, start = {}, 0
        for feature, counts in counted.items():
            number = int(counts.sum())
            position = np.zeros(counts.shape, np.int64)
            position[counts] = places[start : start + number]
            positions[feature] = position
            start += number
        return unique, positions

    def _counts(self, feature: str, ids: np.ndarray, inputs: Mapping[str, np.ndarray]) -> np.ndarray:
        """Which places of padded lists count, bool `[batch, length]`."""
        lengths = np.clip(np.asarray(inputs[feature + LENGTH_SUFFIX]), 0, ids.shape[1])[:, np.newaxis]
        places = np.arange(ids.shape[1])
        most = self._most[feature]
        first = 0 if most is None else lengths - most
        return (places < lengths) & (places >= first)

    def _look_up(self, ids: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Float32 `[n, width]` of each table's ids."""
        owners = {table: shard_of(mix(keys), len(self._shards)) for table, keys in ids.items()}
        vectors = {
            table: np.zeros([len(keys), self._description.tables[table].width], np.float32)
            for table, keys in ids.items()
        }
        for number, shard in enumerate(self._shards):
            request = {table: keys[owners[table] == number] for table, keys in ids.items()}
            if any(len(keys) for keys in request.values()):
                for table, found in shard(request).items():
                    vectors[table][owners[table] == number] = found
        return vectors
