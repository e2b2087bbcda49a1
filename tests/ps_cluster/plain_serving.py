"""A program that serves a SavedModel with plain TensorFlow: nothing of this project or of TFRA can be imported in it.

Usage: python -I plain_serving.py SAVED_MODEL INPUTS.npz OUTPUTS.npz
"""

import sys

FORBIDDEN = {"tensorflow_recommenders_addons", "tensorflow_io", "horovod", "tf_keras", "ps_cluster", "ops", "models"}


class _Forbid:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in FORBIDDEN:
            raise ImportError(f"{name} is not there when serving")


def main(model: str, inputs: str, outputs: str) -> None:
    """Score the inputs, each array under its feature's name."""
    sys.meta_path.insert(0, _Forbid())
    import numpy as np
    import tensorflow as tf

    serve = tf.saved_model.load(model).signatures["serving_default"]
    given = {name: tf.constant(array) for name, array in np.load(inputs).items()}
    assert set(given) == set(serve.structured_input_signature[1])
    np.savez(outputs, **{name: tensor.numpy() for name, tensor in serve(**given).items()})
    assert not FORBIDDEN & {name.partition(".")[0] for name in sys.modules}


if __name__ == "__main__":
    main(*sys.argv[1:])
