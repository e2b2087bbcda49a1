"""The op libraries: C++ kernels and the thin Python functions that call them."""
