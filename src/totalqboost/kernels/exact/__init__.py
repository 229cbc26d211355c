"""Kernels of the exact solver; `totalqboost.solvers.exact` says what they are for."""
