"""Checkpoints: written beside training, found again when whole, read in blocks."""
