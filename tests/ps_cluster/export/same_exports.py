"""Whether two exports are the same, bit for bit."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import tensorflow as tf

from ps_cluster.export.bundle import bundle_of, keys_by_name
from ps_cluster.export.description import read_description


def values_of(model: str) -> dict[str, np.ndarray]:
    """The values of a model's variables by their names in its files."""
    reader = tf.train.load_checkpoint(bundle_of(model))
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}


def check_same(one: str, other: str) -> None:
    """The same variables, of tables in files of the same bytes, and the same description and card."""
    names = sorted(name for name in os.listdir(os.path.join(one, "variables")) if ".data-" in name)
    assert names == sorted(name for name in os.listdir(os.path.join(other, "variables")) if ".data-" in name)
    for name in names[1:]:  # the first one also has the graph of objects, which TensorFlow writes in no order
        assert Path(one, "variables", name).read_bytes() == Path(other, "variables", name).read_bytes(), name
    assert keys_by_name(bundle_of(one)) == keys_by_name(bundle_of(other))
    mine, yours = values_of(one), values_of(other)
    assert mine.keys() == yours.keys()
    for name, value in mine.items():
        if isinstance(value, np.ndarray):
            assert value.tobytes() == yours[name].tobytes(), name
    assert read_description(one) == read_description(other)
    cards = [Path(model, "assets.extra", "model_card.json") for model in (one, other)]
    assert cards[0].exists() == cards[1].exists() == (read_description(one).kind != "shard")
    if cards[0].exists():
        assert json.loads(cards[0].read_text()) == json.loads(cards[1].read_text())
