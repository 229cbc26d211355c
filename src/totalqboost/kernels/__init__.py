"""All compiled code: plain functions of arrays and scalars, cached on disk.

Python validates and allocates, kernels compute. Each kernel has a slow NumPy twin in
``tests/``, and the suite runs once with the JIT off.
"""
