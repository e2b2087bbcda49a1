"""Samples: making, writing and reading ORC files of training rows."""
