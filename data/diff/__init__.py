"""Two sets of sample files compared row by row."""
