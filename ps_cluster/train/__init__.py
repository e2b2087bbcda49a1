"""The way of a batch: read, look up, model, loss, all-reduce, apply, checkpoint."""
