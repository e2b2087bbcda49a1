"""Embedding tables on parameter servers."""
