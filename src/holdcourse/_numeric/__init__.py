"""Compiled kernels: pure functions on arrays, numpy and numba only, no validation inside."""
