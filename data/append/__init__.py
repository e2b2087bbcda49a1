"""Samples appended by jobs and streams: what was flushed survives a killed process."""
