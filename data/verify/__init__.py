"""Sample files read whole and compared with what they say of themselves."""
