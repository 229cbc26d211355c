"""The paper's own form: what its section 5 says, stated once for the estimator and experiments."""

from __future__ import annotations

from typing import Any

from totalqboost.solvers import TabuSearch

__all__ = ["EPSILON", "LOSS", "NU", "N_BITS", "T", "paper_form", "tabu_search", "tolerance"]

LOSS = "exponential"
NU = 1e-6  # "negligibly small but nonzero": the paper has no number, this is ours, of a mean risk
EPSILON = 5e-4  # of eq. (9) and of the refits, where the risk is a sum over rows
T = 100  # most rounds
N_BITS = 6  # of the fixed-point weights of line 10


def tolerance(epsilon: float, n_rows: float) -> float:
    """Return the paper's eps in the unit of this library, where risk and edges are means."""
    return epsilon / n_rows


def tabu_search(n_bits: int = N_BITS) -> TabuSearch:
    """Return the solver of the paper's line 10: multistart tabu search that flips bits."""
    return TabuSearch(n_bits=n_bits, moves="bits", restart="mst2", discrete=True)


def paper_form() -> dict[str, Any]:
    """Return the arguments of the estimator that make it Algorithm 1 with the paper's settings."""
    return {
        "loss": LOSS,
        "l1_penalty": NU,
        "solver": tabu_search(),
        "max_rounds": T,
        "tol": "paper",
        "exchange": False,
        "patience": None,
        "exhaust": True,
        "fit_intercept": False,
    }
