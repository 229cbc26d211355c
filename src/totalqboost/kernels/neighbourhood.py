"""All one-weight moves at once: s = A u scores every neighbour of a weight vector.

Moving w_j by d turns the exponential risk f into e^-d P_j + e^d N_j with
P_j = (f + s_j) / 2 and N_j = (f - s_j) / 2, so one product with u prices every bit flip
and every level of every weight. A holds one row of int8 signs per weak classifier.
"""

from __future__ import annotations

import numpy as np

from totalqboost.kernels.jit import kernel


@kernel
def correlate(A, u, out):
    """Write s = A u; four columns of H share each load of u."""
    n, m = A.shape
    zero = u[:1].sum() * 0  # a zero of u's own type keeps float32 sums in float32
    n4 = n - n % 4
    for j in range(0, n4, 4):
        a = b = c = d = zero
        for i in range(m):
            x = u[i]
            a += A[j, i] * x
            b += A[j + 1, i] * x
            c += A[j + 2, i] * x
            d += A[j + 3, i] * x
        out[j] = a
        out[j + 1] = b
        out[j + 2] = c
        out[j + 3] = d
    for j in range(n4, n):
        a = zero
        for i in range(m):
            a += A[j, i] * u[i]
        out[j] = a
