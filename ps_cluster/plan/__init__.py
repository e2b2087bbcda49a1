"""How much a job needs before it runs: rows, bytes, network, time, each with the formula it comes from."""
