"""A running job as it can be seen from outside: figures that each process serves, and commands that read them."""
