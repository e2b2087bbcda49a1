"""An export that scores: a SavedModel, or a sharded one, behind one function of the features."""

from __future__ import annotations

import os
from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from ps_cluster.errors import UserError
from ps_cluster.export.description import DESCRIPTION, Description, read_description
from ps_cluster.export.sharded_client import DENSE, Call, ShardedClient, shard_name
from ps_cluster.export.version_folder import version_numbers


def find_model(place: str) -> str:
    """The folder of the version that a person means: that folder, or the newest version of the folder above it.

    Of the sharded form it is that of `dense`.

    Raises:
        UserError: there is no export.
    """
    for folder in (place, os.path.join(place, DENSE)):
        if os.path.exists(os.path.join(folder, DESCRIPTION)):
            return folder
        numbers = version_numbers(folder)
        if numbers and os.path.exists(os.path.join(folder, str(numbers[-1]), DESCRIPTION)):
            return os.path.join(folder, str(numbers[-1]))
    if not os.path.isdir(place):
        raise UserError(f"{place}: expected an exported model, found no such folder")
    raise UserError(f"{place}: expected an exported model with {DESCRIPTION}, or versions of one, found none")


def open_model(model: str) -> tuple[Description, Call]:
    """The export in a version's folder, and how to call it. Loads the op library, or TFRA, where the form needs it.

    Raises:
        UserError: the folder holds none, or the library is not there.
    """
    described = read_description(model)
    if described.kind == "shard":
        raise UserError(f"{model}: expected a model that scores, found a shard of one; name the folder of `{DENSE}`")
    if described.form == "ops":
        from ops.library import LibraryError, load_rankmixer

        try:
            load_rankmixer()
        except LibraryError as error:
            raise UserError(f"{model}: the form `ops` needs our ops: {error}") from None
    if described.form == "tfra":
        try:
            import tensorflow_recommenders_addons.dynamic_embedding  # noqa: F401  registers TFRA's ops
        except ImportError as error:
            raise UserError(f"{model}: the form `tfra` needs tensorflow-recommenders-addons: {error}") from None
    if described.kind == "ranker":
        return described, signature_call(model)
    of_dense, version = os.path.split(os.path.normpath(model))
    above = os.path.dirname(of_dense)
    assert described.shards is not None
    shards = [os.path.join(above, shard_name(number, described.shards), version) for number in range(described.shards)]
    for shard in shards:
        found = read_description(shard)
        if found.source != described.source:
            raise UserError(f"{shard}: expected the shard of {described.source}, found that of {found.source}")
    return described, ShardedClient(described, signature_call(model), [signature_call(shard) for shard in shards]).score


def signature_call(model: str) -> Call:
    """The signature `serving_default` of a SavedModel, loaded into this process."""
    try:
        loaded = tf.saved_model.load(model)
    except (OSError, tf.errors.OpError) as error:
        raise UserError(f"{model}: expected a SavedModel that loads, found: {str(error).splitlines()[0]}") from None
    signature = loaded.signatures["serving_default"]

    def call(inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        # The signature holds the variables of `loaded` no longer than that lives.
        assert loaded is not None
        given = {name: tf.constant(value) for name, value in inputs.items()}
        return {name: value.numpy() for name, value in signature(**given).items()}

    return call
