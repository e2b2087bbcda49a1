"""Runs the block's op and its gradient from a library given by path, and writes what came out."""

from __future__ import annotations

import sys

import numpy as np
import tensorflow as tf


def main(library: str, given: str, found: str, norm: str, activation: str, keep: str) -> None:
    tf.config.experimental.enable_tensor_float_32_execution(False)
    ops = tf.load_op_library(library)
    arrays = np.load(given)
    dy, *inputs = [tf.constant(arrays[name]) for name in arrays.files]
    options = {"norm": norm, "activation": activation, "epsilon": 1e-6, "dropout": 0.25}
    outputs = ops.ps_cluster_rankmixer_block(*inputs, **options, keep=keep == "keep")
    gradients = ops.ps_cluster_rankmixer_block_grad(dy, *inputs, *outputs[1:], **options)
    refused = []
    for index, name in enumerate(arrays.files[1:]):
        wrong = [*inputs]
        wrong[index] = tf.zeros([3], inputs[index].dtype)
        try:
            ops.ps_cluster_rankmixer_block(*wrong, **options, keep=True)
        except tf.errors.InvalidArgumentError as error:
            refused.append(f"{name}: expected" in error.message)
        else:
            refused.append(False)
    np.savez(found, refused, *(array.numpy() for array in (*outputs, *gradients)))


if __name__ == "__main__":
    main(*sys.argv[1:])
