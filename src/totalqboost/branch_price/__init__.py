"""The best ensemble of at most k stumps out of the whole dictionary, with a certificate.

    min over w >= 0, card(w) <= k   sum_i c_i l(z_i) + nu sum_j w_j

over all stumps of the data, not over generated columns. Order of calls: boosting with
exchanges gives a first ensemble; then sets of k - 2 cuts are branched on, depth first, and for
each a compiled sweep prices every pair of further cuts by the cell bound (see
:mod:`totalqboost.kernels.cells`), which no weights can beat. Only sets whose bound is below
the best objective are refitted, and closed by a dual bound of their own. A branch is cut off
when the cells of all cuts that may still come do not get below the best objective.

A cut is a stump of either polarity; so is its weight of either sign. An intercept is free.
"""

from totalqboost.branch_price.solver import BranchAndPrice, CertifiedEnsemble
from totalqboost.branch_price.tree import PriceProgress

__all__ = ["BranchAndPrice", "CertifiedEnsemble", "PriceProgress"]
