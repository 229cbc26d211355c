"""Primal, dual and the gap between them, round by round: Fig. 2 of the paper from a real run."""

from __future__ import annotations

from typing import Any

import numpy as np

from totalqboost.plots.axes import new_axes

__all__ = ["plot_trace"]


def plot_trace(fitted: Any, *, ax: Any = None) -> Any:
    """Draw the objective of every round of Algorithm 1 and the dual bound below it.

    The dual does not see the cardinality penalty (Theorem 1), so that the gap is never less than
    lambda card(w) (Theorem 2). What is above that is the price of leaving columns out: the
    ensemble is no longer the best one under the l1 penalty alone.

    Parameters
    ----------
    fitted : fitted classifier
        With rounds of Algorithm 1: one that was trained with ``exchange=False``.
    ax : matplotlib Axes, optional
        Where to draw; by default in a new figure of pyplot.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from totalqboost import TotalQBoostClassifier, datasets
    >>> from totalqboost.plots import plot_trace
    >>> X, y = datasets.load("heart")
    >>> clf = TotalQBoostClassifier(0.01, exchange=False, max_rounds=15).fit(X, y)
    >>> [line.get_label() for line in plot_trace(clf).lines]
    ['objective', 'dual bound', 'gap', 'λ card(w)']
    """
    trace = getattr(fitted, "trace_", None)
    if trace is not None and not len(trace) and not getattr(fitted, "exchange", True):
        raise ValueError(
            "fitted has no round to draw: no weak classifier was worth l1_penalty="
            f"{fitted.l1_penalty_:g}; lower it"
        )
    rounds = [r for r in trace or () if np.isfinite(r.dual_bound)]
    if not rounds:
        raise ValueError(
            "fitted must have rounds of Algorithm 1 in trace_: fit a TotalQBoostClassifier with "
            "exchange=False first"
        )
    numbers = [r.number for r in rounds]
    # With many classes the objective of a round is a mean over rows and classes.
    n_classes = len(fitted.classes_)
    lam = fitted.cardinality_penalty_ / (n_classes if n_classes > 2 else 1)
    ax = new_axes() if ax is None else ax
    marker = "o" if len(rounds) == 1 else ""  # a line of one point shows nothing
    lines = {  # dashed where it may lie on another one
        "objective": ("C3", "-", [r.objective for r in rounds]),
        "dual bound": ("C0", "--", [r.dual_bound for r in rounds]),
        "gap": ("C2", "-", [r.duality_gap for r in rounds]),
        "λ card(w)": ("C2", ":", [lam * r.cardinality for r in rounds]),
    }
    for label, (color, style, values) in lines.items():
        ax.plot(numbers, values, color=color, linestyle=style, marker=marker, label=label)
    top = 1.2 * max(max(values) for _, _, values in lines.values())  # room for the legend
    ax.set(xlabel="round", ylabel="mean over rows", ylim=(0, top))
    ax.xaxis.get_major_locator().set_params(integer=True, min_n_ticks=1)
    ax.legend(loc="upper center", ncols=len(lines), frameon=False)
    return ax
