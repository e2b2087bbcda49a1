"""What sample files are like: layout, coverage, different ids, order."""
