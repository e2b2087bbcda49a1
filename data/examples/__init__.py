"""Sample logs to try things out: real ratings, and clicks whose best reachable AUC is known."""
