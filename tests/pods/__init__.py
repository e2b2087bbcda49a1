"""Runs what `ps-cluster render` prints on this machine, as a cluster of Kubernetes would: `python -m tests.pods`."""
