"""Tests of data.convert."""
