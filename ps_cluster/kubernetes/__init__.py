"""The job as objects of Kubernetes: what `kubectl apply` needs, and the life of a run that kubectl manages."""
