"""The ORC format where pyarrow and pyorc show or write too little: tails, indexes, checksums, stripes put together."""
