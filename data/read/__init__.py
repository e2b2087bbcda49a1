"""From ORC files to batches of training rows: footers, plan, order, decoding, two readers."""
