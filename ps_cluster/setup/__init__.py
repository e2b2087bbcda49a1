"""Programs that prepare a checkout; they need nothing but Python's standard library."""
