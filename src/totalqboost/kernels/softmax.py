"""The multinomial logistic loss: sum_i c_i log sum_l exp F_il - sum_l T_il F_il, c_i = sum_l T_il.

T_il is the weight of row i if its class is l, else 0; rows that were merged have several.
"""

from __future__ import annotations

import math

import numpy as np

from totalqboost.kernels.elementary import fast_exp
from totalqboost.kernels.jit import kernel


@kernel
def row_losses(F, target, out):
    """Write the loss of each row; return their sum."""
    loss = 0.0
    for i in range(F.shape[0]):
        largest, total, own, weight = -np.inf, 0.0, 0.0, 0.0
        for label in range(F.shape[1]):
            largest = max(largest, F[i, label])
            own += target[i, label] * F[i, label]
            weight += target[i, label]
        for label in range(F.shape[1]):
            total += fast_exp(F[i, label] - largest)
        out[i] = weight * (largest + math.log(total)) - own
        loss += out[i]
    return loss


@kernel
def softmax_terms(F, target, g, q):
    """Write slopes g = T - c p and curvatures q = c p (1 - p); return the loss."""
    loss = 0.0
    for i in range(F.shape[0]):
        largest, total, own, weight = -np.inf, 0.0, 0.0, 0.0
        for label in range(F.shape[1]):
            largest = max(largest, F[i, label])
            own += target[i, label] * F[i, label]
            weight += target[i, label]
        for label in range(F.shape[1]):
            q[i, label] = fast_exp(F[i, label] - largest)
            total += q[i, label]
        for label in range(F.shape[1]):
            p = q[i, label] / total
            g[i, label] = target[i, label] - weight * p
            q[i, label] = weight * p * (1.0 - p)
        loss += weight * (largest + math.log(total)) - own
    return loss
