"""The job file: its schema, how it is read, and the cluster a process finds itself in."""
