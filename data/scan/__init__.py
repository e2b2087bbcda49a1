"""All rows of some files in one pass, for the tools that look at every value."""
