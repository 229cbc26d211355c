"""The frontier as a picture, error against size, and as a table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from totalqboost.plots.axes import new_axes
from totalqboost.tables import Table, counted

__all__ = ["FrontierDisplay", "frontier_html", "frontier_text"]


def _measured_error(point: Any) -> tuple[float, float, float]:
    return 100 * point.valid_error, 100 * point.valid_error_se, 100 * point.train_error


def _measured_log_loss(point: Any) -> tuple[float, float, float]:
    train = point.risk if point.ensemble.loss == "logistic" else np.nan  # its risk is the log-loss
    return point.valid_log_loss, point.valid_log_loss_se, train


def _measured_auc(point: Any) -> tuple[float, float, float]:
    return point.valid_auc, point.valid_auc_se, np.nan


# By metric: (validation, its standard error, training) of a point, label of the axis, format.
METRICS: dict[str, tuple[Callable[[Any], tuple[float, float, float]], str, str]] = {
    "error": (_measured_error, "error (%)", "{:.1f} %"),
    "log_loss": (_measured_log_loss, "log-loss", "{:.3f}"),
    "auc": (_measured_auc, "area under the ROC curve", "{:.3f}"),
}


class FrontierDisplay:
    """Error, log-loss or AUC against the size of the ensemble, in scikit-learn's display style.

    Use :meth:`from_frontier` or :meth:`from_estimator`, which draw at once.

    Parameters
    ----------
    sizes : array of int
        Numbers of weak classifiers.
    values, standard_errors : arrays
        The metric on validation rows (or out of fold) and its standard error, NaN where unknown.
    train_values : array
        The metric on the training rows, NaN where unknown.
    metric : {"error", "log_loss", "auc"}
        What the values are; errors are in per cent.
    chosen : int, optional
        The size to mark.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Where it was drawn.
    line_ : matplotlib Line2D
        The curve on validation rows, or on training rows if there are no others.
    band_ : matplotlib collection or None
        One standard error to both sides of the curve.
    train_line_, chosen_ : matplotlib Line2D or None
        The curve on training rows, where it is not ``line_``; the mark.

    Examples
    --------
    >>> from totalqboost.plots import FrontierDisplay
    >>> display = FrontierDisplay(
    ...     sizes=[0, 1, 2],
    ...     values=[50.0, 20.0, 12.0],
    ...     standard_errors=[2.5, 2.0, 1.6],
    ...     train_values=[50.0, 18.0, 9.0],
    ...     chosen=2,
    ... ).plot()
    >>> display.line_.get_ydata().tolist()
    [50.0, 20.0, 12.0]
    """

    def __init__(
        self,
        *,
        sizes: Any,
        values: Any,
        standard_errors: Any,
        train_values: Any,
        metric: str = "error",
        chosen: int | None = None,
    ) -> None:
        self.sizes = np.asarray(sizes)
        self.values = np.asarray(values, dtype=float)
        self.standard_errors = np.asarray(standard_errors, dtype=float)
        self.train_values = np.asarray(train_values, dtype=float)
        self.metric = metric
        self.chosen = chosen

    @classmethod
    def from_frontier(
        cls,
        front: Any,
        metric: str = "error",
        *,
        rule: Any = "paired",
        ax: Any = None,
        **kwargs: Any,
    ) -> FrontierDisplay:
        """Draw a frontier.

        Parameters
        ----------
        front : Frontier
            What :func:`totalqboost.frontier` returned.
        metric : {"error", "log_loss", "auc"}
            What to draw. Log-loss and AUC need validation rows or ``cv``.
        rule : str, callable or None
            The size that ``front.best(rule=rule)`` chooses is marked; None marks nothing.
        ax, **kwargs
            As in :meth:`plot`.
        """
        chosen = None if rule is None else front.best(rule=rule).n_learners
        return cls._of(front, metric, chosen).plot(ax, **kwargs)

    @classmethod
    def from_estimator(
        cls, estimator: Any, metric: str = "error", *, ax: Any = None, **kwargs: Any
    ) -> FrontierDisplay:
        """Draw the frontier of a fitted TotalQBoostClassifierCV and mark the size it chose.

        The other parameters are those of :meth:`from_frontier`.
        """
        try:
            front, chosen = estimator.frontier_, estimator.n_learners_
        except AttributeError:
            raise TypeError(
                "estimator must be a fitted TotalQBoostClassifierCV, got a "
                f"{type(estimator).__name__} without frontier_; draw a frontier by from_frontier"
            ) from None
        return cls._of(front, metric, chosen).plot(ax, **kwargs)

    @classmethod
    def _of(cls, front: Any, metric: str, chosen: int | None) -> FrontierDisplay:
        if metric not in METRICS:
            raise ValueError(f"metric must be one of {list(METRICS)}, got {metric!r}")
        measured = np.array([METRICS[metric][0](point) for point in front])
        values, errors, train = measured.T
        if np.isnan(values).all() and np.isnan(train).all():
            raise ValueError(
                f"metric must be one that the frontier holds, got {metric!r}, which needs "
                "validation rows: frontier(X, y, X_valid, y_valid) or frontier(X, y, cv=5)"
            )
        return cls(
            sizes=[point.n_learners for point in front],
            values=values,
            standard_errors=errors,
            train_values=train,
            metric=metric,
            chosen=chosen,
        )

    def plot(
        self,
        ax: Any = None,
        *,
        name: str | None = None,
        plot_train: bool = True,
        **kwargs: Any,
    ) -> FrontierDisplay:
        """Draw the curves and return self.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; by default in a new figure of pyplot.
        name : str, optional
            Name of the curve in the legend, where several are drawn into the same axes.
        plot_train : bool
            Draw the training curve too, if it is known.
        **kwargs
            For matplotlib's ``plot`` of the curve, e.g. ``color="C1"``.
        """
        self.ax_ = new_axes() if ax is None else ax
        self.figure_ = self.ax_.figure
        self.band_ = self.train_line_ = self.chosen_ = None
        style = {"marker": "o", "ms": 3.5, "zorder": 3}
        has_values = not np.isnan(self.values).all()
        shown = self.values if has_values else self.train_values
        label = self._label(name, "validation" if has_values else "training")
        (self.line_,) = self.ax_.plot(self.sizes, shown, **{**style, "label": label, **kwargs})
        if has_values:
            self._draw_band()
        if has_values and plot_train and not np.isnan(self.train_values).all():
            label = "training" if name is None else f"{name}, training"
            grey = {**style, "color": "0.6", "zorder": 2, "label": label}
            (self.train_line_,) = self.ax_.plot(self.sizes, self.train_values, **grey)
        if self.chosen is not None:
            self._mark(shown)
        self._decorate()
        return self

    def _label(self, name: str | None, rows: str) -> str:
        has_band = rows == "validation" and not np.isnan(self.standard_errors).all()
        return (rows if name is None else name) + (" ± standard error" if has_band else "")

    def _draw_band(self) -> None:
        if not np.isnan(self.standard_errors).all():
            low, high = self.values - self.standard_errors, self.values + self.standard_errors
            colour = self.line_.get_color()
            self.band_ = self.ax_.fill_between(
                self.sizes, low, high, color=colour, alpha=0.18, lw=0, zorder=1
            )

    def _mark(self, shown: np.ndarray) -> None:
        value = float(shown[np.flatnonzero(self.sizes == self.chosen)[0]])
        text = f"chosen: {counted(int(self.chosen or 0), 'learner')}, "
        text += METRICS[self.metric][2].format(value)
        ring = {"ls": "none", "marker": "o", "ms": 11, "mfc": "none", "mew": 2, "color": "C3"}
        (self.chosen_,) = self.ax_.plot([self.chosen], [value], **ring, label=text, zorder=4)

    def _decorate(self) -> None:
        from matplotlib.ticker import MaxNLocator

        self.ax_.set(xlabel="weak classifiers in the ensemble", ylabel=METRICS[self.metric][1])
        self.ax_.xaxis.set_major_locator(MaxNLocator(integer=True))
        if self.metric == "error":
            self.ax_.set_ylim(bottom=0)
        self.ax_.grid(alpha=0.3)
        self.ax_.legend(frameon=False)


# -- the frontier as a table -------------------------------------------------------------


def frontier_text(front: Any) -> str:
    """Return the frontier as a table for a terminal, one line per size.

    Parameters
    ----------
    front : Frontier
        What to show.

    Examples
    --------
    >>> from totalqboost import datasets, frontier
    >>> from totalqboost.plots import frontier_text
    >>> front = frontier(*datasets.load("flare solar"), max_learners=1)
    >>> print(frontier_text(front).splitlines()[0])
    Frontier: 2 ensembles of 0 to 1 weak classifiers
    """
    return _frontier_table(front).text()


def frontier_html(front: Any) -> str:
    """Return the frontier as a table for a notebook, one row per size.

    Parameters
    ----------
    front : Frontier
        What to show.

    Examples
    --------
    >>> from totalqboost import datasets, frontier
    >>> from totalqboost.plots import frontier_html
    >>> front = frontier(*datasets.load("flare solar"), max_learners=1)
    >>> frontier_html(front).count("<tr")
    3
    """
    return _frontier_table(front).html()


def _frontier_table(front: Any) -> Table:
    points = list(front)
    columns = {
        "learners": [str(p.n_learners) for p in points],
        "objective": [f"{p.objective:.5f}" for p in points],
        "training error (%)": [_shown("{:.1f}", 100 * p.train_error) for p in points],
        "validation error (%)": [
            _shown("{:.1f}", 100 * p.valid_error, 100 * p.valid_error_se) for p in points
        ],
        "log-loss": [_shown("{:.3f}", p.valid_log_loss, p.valid_log_loss_se) for p in points],
        "AUC": [_shown("{:.3f}", p.valid_auc, p.valid_auc_se) for p in points],
        "penalty": [_shown("{:.3g}", p.penalty) for p in points],
    }
    if len({p.l1_penalty for p in points}) > 1:  # then objectives are not those of one problem
        columns["l1 penalty"] = [_shown("{:.3g}", p.l1_penalty) for p in points]
    columns = {name: cells for name, cells in columns.items() if any(cells)}
    title = f"Frontier: {counted(len(points), 'ensemble')}"
    if points:
        title += f" of {points[0].n_learners} to {points[-1].n_learners} weak classifiers"
    return Table(
        title, list(columns), list(zip(*columns.values(), strict=True)), "r" * len(columns)
    )


def _shown(form: str, value: float, error: float = np.nan) -> str:
    """Return a number with its standard error; nothing if it is not known."""
    if np.isnan(value):
        return ""
    return form.format(value) + ("" if np.isnan(error) else f" ± {form.format(error)}")
