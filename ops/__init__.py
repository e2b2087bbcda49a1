"""The op library: C++ kernels and the thin Python functions that call them."""
