"""The error of wrong sample data."""


class DataError(ValueError):
    """A sample file, column or row is not what was declared; the text names file, column, expected and found."""
