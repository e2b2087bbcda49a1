"""Training and shipping recommender rankers on TensorFlow parameter servers."""
