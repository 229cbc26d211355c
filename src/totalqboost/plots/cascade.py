"""A detector as a picture: misses against false positives, and what rows cost."""

from __future__ import annotations

from typing import Any

import numpy as np

from totalqboost.plots.axes import new_axes

__all__ = ["CascadeDisplay"]


class CascadeDisplay:
    """Detection error trade-off and cost of a cascade, in scikit-learn's display style.

    On the left the share of positives that are missed against the share of negatives that are
    detected, for all thresholds, and the detector itself with exact bounds of both shares. On the
    right the share of the rows of each class that are left after so many weak classifiers.

    Use :meth:`from_estimator`, which draws at once.

    Parameters
    ----------
    false_positive_rates, miss_rates : arrays
        The curve, by falling threshold.
    point : tuple of two floats
        False-positive rate and miss rate of the detector.
    bounds : tuple of two floats, optional
        What neither exceeds with confidence.
    left_negatives, left_positives : arrays
        Shares of rows that are left after 0, 1, 2, ... weak classifiers.
    mean_learners : float
        Weak classifiers per negative.
    is_whole : bool
        Whether the curve is that of the whole ensemble with one threshold, or of the cascade with
        higher last thresholds.

    Attributes
    ----------
    ax_, cost_ax_, figure_ : matplotlib Axes and Figure
        Where it was drawn.
    line_, point_, negatives_, positives_ : matplotlib artists
        The curve, the mark of the detector, and the two curves of rows that are left.

    Examples
    --------
    >>> from totalqboost.plots import CascadeDisplay
    >>> display = CascadeDisplay(
    ...     false_positive_rates=[0.0, 0.1, 1.0],
    ...     miss_rates=[1.0, 0.05, 0.0],
    ...     point=(0.1, 0.05),
    ...     left_negatives=[1.0, 0.5, 0.1],
    ...     left_positives=[1.0, 1.0, 0.95],
    ...     mean_learners=1.5,
    ... ).plot()
    >>> display.negatives_.get_ydata().tolist()
    [1.0, 0.5, 0.1]
    """

    def __init__(
        self,
        *,
        false_positive_rates: Any,
        miss_rates: Any,
        point: tuple[float, float],
        left_negatives: Any,
        left_positives: Any,
        mean_learners: float,
        bounds: tuple[float, float] | None = None,
        is_whole: bool = True,
    ) -> None:
        self.false_positive_rates = np.asarray(false_positive_rates, dtype=float)
        self.miss_rates = np.asarray(miss_rates, dtype=float)
        self.point, self.bounds = point, bounds
        self.left_negatives = np.asarray(left_negatives, dtype=float)
        self.left_positives = np.asarray(left_positives, dtype=float)
        self.mean_learners = mean_learners
        self.is_whole = is_whole

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any, *, ax: Any = None, **kwargs: Any
    ) -> CascadeDisplay:
        """Draw what a fitted CascadeClassifier does on rows, best on fresh ones.

        Parameters
        ----------
        estimator : CascadeClassifier
            The detector.
        X, y
            Rows with labels that it knows.
        ax, **kwargs
            As in :meth:`plot`.
        """
        try:
            is_whole = len(estimator.cascade_.stages) == 1
        except AttributeError:
            raise TypeError(
                "estimator must be a fitted CascadeClassifier, got a "
                f"{type(estimator).__name__} without cascade_"
            ) from None
        certificate = estimator.certify(X, y)
        if not (certificate.n_positives and certificate.n_negatives):
            raise ValueError("y must have rows of both classes to draw how they are told apart")
        is_positive = np.asarray(y) == estimator.classes_[1]
        margins, n_evaluated = estimator.decision_function(X), estimator.learners_evaluated(X)
        if is_whole:
            scores = estimator.ensemble_.decision_function(X)
        else:  # what is rejected has no last score
            scores = np.where(margins >= 0, margins, -np.inf)
        false, missed = _trade_off(scores, is_positive)
        n_left = _left(margins, n_evaluated, estimator.n_learners_)
        return cls(
            false_positive_rates=false,
            miss_rates=missed,
            point=(certificate.false_positive_rate, 1.0 - certificate.recall),
            bounds=(certificate.false_positive_bound, 1.0 - certificate.recall_bound),
            left_negatives=n_left[:, ~is_positive].mean(axis=1),
            left_positives=n_left[:, is_positive].mean(axis=1),
            mean_learners=certificate.mean_learners_evaluated,
            is_whole=is_whole,
        ).plot(ax, **kwargs)

    def plot(self, ax: Any = None, *, name: str | None = None, **kwargs: Any) -> CascadeDisplay:
        """Draw and return self.

        Parameters
        ----------
        ax : sequence of two matplotlib Axes, optional
            Where to draw; by default in a new figure of pyplot.
        name : str, optional
            Name in the legends, where several detectors are drawn into the same axes.
        **kwargs
            For matplotlib's ``plot`` of the curve, e.g. ``color="C1"``.
        """
        self.ax_, self.cost_ax_ = new_axes(2) if ax is None else ax
        self.figure_ = self.ax_.figure
        self._draw_trade_off("" if name is None else f"{name}: ", kwargs)
        self._draw_cost("" if name is None else f"{name}: ")
        return self

    def _draw_trade_off(self, name: str, kwargs: dict[str, Any]) -> None:
        what = "all learners, one threshold" if self.is_whole else "cascade, last threshold raised"
        seen = (self.false_positive_rates > 0) & (self.miss_rates > 0)  # both axes are logarithms
        (self.line_,) = self.ax_.plot(
            self.false_positive_rates[seen],
            self.miss_rates[seen],
            **{"label": f"{name}{what}", "zorder": 2, **kwargs},
        )
        x, y = self.point
        errors = None
        if self.bounds is not None:
            errors = [
                [[0.0], [max(bound - v, 0.0)]] for bound, v in zip(self.bounds, (x, y), strict=True)
            ]
        drawn = self.ax_.errorbar(
            [x],
            [y],
            xerr=None if errors is None else errors[0],
            yerr=None if errors is None else errors[1],
            fmt="o",
            ms=6,
            capsize=3,
            color="C3",
            zorder=3,
            label=f"{name}detector: {100 * y:.2g} % missed, {100 * x:.2g} % false",
        )
        self.point_ = drawn.lines[0]
        self.ax_.set(
            xscale="log",
            yscale="log",
            xlabel="negatives that are detected (false-positive rate)",
            ylabel="positives that are missed",
        )
        self.ax_.grid(alpha=0.3, which="both")
        self.ax_.legend(frameon=False, loc="lower left")

    def _draw_cost(self, name: str) -> None:
        from matplotlib.ticker import MaxNLocator

        sizes = np.arange(len(self.left_negatives))
        style = {"where": "post", "zorder": 2}
        (self.positives_,) = self.cost_ax_.step(
            sizes, self.left_positives, **{**style, "color": "C3", "label": f"{name}positives"}
        )
        label = f"{name}negatives: {self.mean_learners:.1f} learners each"
        (self.negatives_,) = self.cost_ax_.step(
            sizes, self.left_negatives, **{**style, "color": "C0", "label": label}
        )
        self.cost_ax_.set(
            xlabel="weak classifiers that were asked", ylabel="share of rows left", ylim=(0, 1.02)
        )
        self.cost_ax_.set_xlim(0, max(len(sizes) - 1, 1))
        self.cost_ax_.xaxis.set_major_locator(MaxNLocator(integer=True))
        self.cost_ax_.grid(alpha=0.3)
        self.cost_ax_.legend(frameon=False, loc="best")


def _trade_off(scores: np.ndarray, is_positive: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return false-positive and miss rates at every score, the highest first."""
    order = np.argsort(-scores, kind="stable")
    ranked, hits = scores[order], is_positive[order]
    is_last = np.append(ranked[1:] != ranked[:-1], True) & np.isfinite(ranked)  # of equal scores
    false = np.cumsum(~hits)[is_last] / max((~is_positive).sum(), 1)
    missed = 1.0 - np.cumsum(hits)[is_last] / max(is_positive.sum(), 1)
    return false, missed


def _left(margins: np.ndarray, n_evaluated: np.ndarray, n_learners: int) -> np.ndarray:
    """Return which rows are left after 0, 1, 2, ... learners, shape (n_learners + 1, n_rows)."""
    asked = np.arange(n_learners + 1)[:, None]
    return (asked < n_evaluated) | (margins >= 0)
