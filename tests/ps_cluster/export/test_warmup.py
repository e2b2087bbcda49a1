"""The warm-up file holds TF Serving's own messages, decoded here by descriptors made from its field numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import tensorflow as tf
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from tensorflow.core.framework import tensor_pb2  # registers TensorProto

from ps_cluster.export.saved_model import export_saved_model
from ps_cluster.export.sharded import export_sharded
from ps_cluster.export.warmup import BATCHES, WARMUP
from tests.ps_cluster.export.exported_job import Training

OPTIONAL, REPEATED = (
    descriptor_pb2.FieldDescriptorProto.LABEL_OPTIONAL,
    descriptor_pb2.FieldDescriptorProto.LABEL_REPEATED,
)
STRING, MESSAGE = descriptor_pb2.FieldDescriptorProto.TYPE_STRING, descriptor_pb2.FieldDescriptorProto.TYPE_MESSAGE


def prediction_log() -> type:
    """The class of tensorflow.serving.PredictionLog, as far as it is needed: prediction_log.proto, predict.proto and
    model.proto of tensorflow_serving/apis."""
    assert tensor_pb2.DESCRIPTOR.package == "tensorflow"
    file = descriptor_pb2.FileDescriptorProto(name="serving.proto", package="tensorflow.serving", syntax="proto3")
    file.dependency.append(tensor_pb2.DESCRIPTOR.name)

    def message(name: str, *fields: tuple) -> None:
        described = file.message_type.add(name=name)
        for field, number, label, kind, of in fields:
            described.field.add(name=field, number=number, label=label, type=kind, type_name=of)

    message("ModelSpec", ("name", 1, OPTIONAL, STRING, None), ("signature_name", 3, OPTIONAL, STRING, None))
    message(
        "PredictRequest",
        ("model_spec", 1, OPTIONAL, MESSAGE, ".tensorflow.serving.ModelSpec"),
        ("inputs", 2, REPEATED, MESSAGE, ".tensorflow.serving.PredictRequest.InputsEntry"),
    )
    entry = file.message_type[-1].nested_type.add(name="InputsEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, label=OPTIONAL, type=STRING)
    entry.field.add(name="value", number=2, label=OPTIONAL, type=MESSAGE, type_name=".tensorflow.TensorProto")
    message("PredictLog", ("request", 1, OPTIONAL, MESSAGE, ".tensorflow.serving.PredictRequest"))
    message("PredictionLog", ("predict_log", 6, OPTIONAL, MESSAGE, ".tensorflow.serving.PredictLog"))
    pool = descriptor_pool.Default()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("tensorflow.serving.PredictionLog"))


def test_warm_up_requests_are_answered_by_their_models(tmp_path: Path) -> None:
    training = Training(tmp_path)
    training.train(1)
    training.save()
    dense = export_sharded(training.job_file, 1)
    shard = dense.replace("dense", "shard-0-of-1")
    kind = prediction_log()
    for model, name in ((export_saved_model(training.job_file), "small"), (dense, "dense"), (shard, "shard-0-of-1")):
        serve = tf.saved_model.load(model).signatures["serving_default"]
        batches = []
        for raw in tf.data.TFRecordDataset(str(Path(model, WARMUP))):
            log = kind.FromString(raw.numpy())
            request = log.predict_log.request
            assert log.ByteSize() == len(raw.numpy())  # no field that is not known here
            assert (request.model_spec.name, request.model_spec.signature_name) == (name, "serving_default")
            inputs = {key: tf.constant(tf.make_ndarray(value)) for key, value in request.inputs.items()}
            assert inputs.keys() == serve.structured_input_signature[1].keys()
            answer = serve(**inputs)
            assert all(np.isfinite(value).all() for value in answer.values())
            batches.append(next(iter(answer.values())).shape[0])
        assert tuple(batches) == BATCHES
