"""The techniques of the exact solver, each with a switch."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Techniques"]


@dataclass(frozen=True)
class Techniques:
    """What the exact solver may use; bounds are valid with any of it switched off.

    ``benchmarks/ablation.py`` measures what each is worth, ``docs/proofs.md`` proves them.

    Parameters
    ----------
    perspective : bool
        Takes a diagonal out of the curvature so that a price is paid in full by weights that
        are large enough (Frangioni and Gentile, Mathematical Programming 106, 2006).
    fixing : bool
        Decides columns whose other choice would reach the incumbent's objective (reduced costs;
        Atamturk and Gomez, "Safe screening rules for l0-regression", ICML 2020).
    ellipsoid : bool
        Confines weights and margins to the ellipsoid around a node's point in which a better
        solution must be (the ball of Ndiaye et al., "Gap safe screening rules", JMLR 18, 2017).
    moments : bool
        Bounds the exponential loss at any distance by mean, variance and skewness of the
        margins (Krein and Nudelman, "The Markov moment problem", 1977).
    jensen : bool
        Turns those moments into a quadratic below the risk, by Jensen's inequality.
    inherit : bool
        Bounds children by the quadratic and the moments of their parent before their own data
        are looked at.
    reach : bool
        Limits each weight and each margin by a tangent of its own, once a tree turns out to be
        long (Gleixner et al., "Three enhancements for optimization-based bound tightening",
        Journal of Global Optimization 67, 2017).

    Examples
    --------
    >>> from totalqboost.solvers import BranchAndBound
    >>> from totalqboost.solvers.exact import Techniques
    >>> solver = BranchAndBound(techniques=Techniques(moments=False))
    """

    perspective: bool = True
    fixing: bool = True
    ellipsoid: bool = True
    moments: bool = True
    jensen: bool = True
    inherit: bool = True
    reach: bool = True
