"""Errors whose text is meant for the user."""


class UserError(Exception):
    """Wrong input: one clear line (or several) that says where, what was expected, what was found. Exit code 2."""


class RunError(Exception):
    """A run that failed for a reason outside the user's input; the text names the cause. Exit code 1."""


RESTART = 75
"""Exit code (EX_TEMPFAIL) of a run that has stopped where it can go on: start it again."""


class RestartMe(RunError):
    """A run that was asked to end and can go on where it stopped. Exit code RESTART."""
