"""Errors whose text is meant for the user."""


class UserError(Exception):
    """Wrong input: one clear line (or several) that says where, what was expected, what was found. Exit code 2."""


class RunError(Exception):
    """A run that failed for a reason outside the user's input; the text names the cause. Exit code 1."""
