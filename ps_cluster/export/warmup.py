"""Requests that TF Serving sends to a model before a client does: a TFRecord file of PredictionLog messages.

The messages are those of tensorflow_serving/apis (prediction_log.proto, predict.proto, model.proto), of which a few
fields are needed; they are encoded here by field number, so that nothing of TF Serving has to be installed.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf

from ps_cluster.export.description import EXTRA

WARMUP = os.path.join(EXTRA, "tf_serving_warmup_requests")
BATCHES = (1, 128)

_PREDICT_LOG = 6  # of PredictionLog
_REQUEST = 1  # of PredictLog
_MODEL_SPEC, _INPUTS = 1, 2  # of PredictRequest
_NAME, _SIGNATURE_NAME = 1, 3  # of ModelSpec
_KEY, _VALUE = 1, 2  # of a map's entry


def write_warmup(model: str, name: str, requests: Sequence[Mapping[str, np.ndarray]]) -> None:
    """Writes requests of inputs by name for the signature `serving_default`; `name` is that of the model."""
    path = os.path.join(model, WARMUP)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with tf.io.TFRecordWriter(path) as writer:
        for inputs in requests:
            writer.write(prediction_log(name, inputs))


def prediction_log(name: str, inputs: Mapping[str, np.ndarray]) -> bytes:
    """The message of one request."""
    spec = _field(_NAME, name.encode()) + _field(_SIGNATURE_NAME, b"serving_default")
    request = _field(_MODEL_SPEC, spec)
    for key in sorted(inputs):
        tensor = tf.make_tensor_proto(inputs[key]).SerializeToString()
        request += _field(_INPUTS, _field(_KEY, key.encode()) + _field(_VALUE, tensor))
    return _field(_PREDICT_LOG, _field(_REQUEST, request))


def plain_requests(signature: Mapping[str, tf.TensorSpec]) -> list[dict[str, np.ndarray]]:
    """Requests of two sizes with nothing but zeros, lists of one id; they run all that a request runs."""
    requests = []
    for batch in BATCHES:
        request = {}
        for name, spec in signature.items():
            shape = [batch] + [1 if size is None else size for size in spec.shape[1:]]
            request[name] = np.zeros(shape, spec.dtype.as_numpy_dtype)
        requests.append(request)
    return requests


def _field(number: int, content: bytes) -> bytes:
    """A field that holds bytes or a message."""
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
