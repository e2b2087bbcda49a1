"""Training and shipping recommender rankers on TensorFlow parameter servers."""

__version__ = "0.1.0"
