"""From a checkpoint to what serves."""
