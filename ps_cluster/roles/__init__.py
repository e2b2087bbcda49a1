"""What a process of the cluster does once it knows its place."""
