"""Start a cluster on this machine, follow it, leave nothing behind."""
