"""Which rows training takes, with which weight, and what that does to the odds."""
