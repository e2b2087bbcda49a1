"""Commands of `ps-cluster`, one module each."""
