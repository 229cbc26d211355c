"""Pictures of models: error against size, the shape of one feature; and the frontier's table."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from totalqboost import losses
from totalqboost.ensemble import Ensemble
from totalqboost.learners import Constant, Stump
from totalqboost.tables import Table, counted

__all__ = ["FrontierDisplay", "frontier_html", "frontier_text", "plot_shape"]

# Losses whose scores are log-odds but for a factor.
LOG_ODDS = {n: x for n in losses.names() if (x := losses.get(n).log_odds) is not None}
MOST_TICKS = 500  # in a rug: more would be a black bar


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
        self.ax_ = _new_axes() if ax is None else ax
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


def plot_shape(
    ensemble: Any, feature: int | str, X: Any = None, *, unit: str | None = None, ax: Any = None
) -> Any:
    """Draw what one feature contributes to the score, whatever the other features are.

    The score is a sum of such step functions and the intercept, so that the pictures of all
    features are the whole model.

    Parameters
    ----------
    ensemble : Ensemble or fitted classifier
        The model.
    feature : int or str
        Number or name of the column.
    X : array or data frame, optional
        Rows, e.g. the training data. Their values are drawn as a rug, and the curve is centred:
        the mean over these rows is 0, and the height at a value is the feature's SHAP value
        there, as ``ensemble.explain(x, background=X)`` gives it.
    unit : {"log-odds", "score"}, optional
        By default log-odds where the score is a multiple of them (logistic and exponential loss).
    ax : matplotlib Axes, optional
        Where to draw; by default in a new figure of pyplot.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from totalqboost import Ensemble, Stump
    >>> from totalqboost.plots import plot_shape
    >>> model = Ensemble((Stump(0, 40.0), Stump(0, 60.0, -1)), (0.7, 0.2), features=("age",))
    >>> plot_shape(model, "age", unit="score").patches[0].get_data().values.round(1).tolist()
    [-0.5, 0.9, 0.5]
    """
    model = _ensemble_of(ensemble)
    j = _feature_number(model, feature)
    factor, quantity = _unit(model, unit)
    cuts, levels = _steps(model, j)
    values = np.empty(0) if X is None else _column(model, X, j)
    if X is not None:
        levels = levels - levels[np.searchsorted(cuts, values)].mean()
    ax = _new_axes() if ax is None else ax
    ax.axhline(0.0, color="0.8", lw=1, zorder=1)
    low, high = _ends(cuts, values)
    ax.stairs(factor * levels, [low, *cuts, high], baseline=None, color="C0", lw=2, zorder=3)
    _draw_rug(ax, values)
    name = model.feature_names[j] if model.feature_names else f"x{j}"
    ax.set_xlabel(name, parse_math=False)  # a name may hold dollars
    ax.set_ylabel(f"contribution to the {quantity} of {model.classes[1]!r}", parse_math=False)
    return ax


def _ensemble_of(model: Any) -> Ensemble:
    if isinstance(model, Ensemble):
        return model
    try:
        return model.ensemble_
    except AttributeError:
        raise TypeError(
            f"ensemble must be an Ensemble or a fitted classifier, got a {type(model).__name__} "
            "without ensemble_"
        ) from None


def _feature_number(model: Ensemble, feature: int | str) -> int:
    names = model.feature_names
    if isinstance(feature, str):
        if names.count(feature) != 1:
            reason = (
                "is no feature" if feature not in names else "is the name of several, use a number"
            )
            raise ValueError(
                f"feature must be one of {list(names)}, got {feature!r}, which {reason}"
            )
        return names.index(feature)
    j = operator.index(feature)
    if j < 0 or (names and j >= len(names)):
        last = f"to {len(names) - 1}" if names else "on"
        raise ValueError(f"feature must be a name or a number from 0 {last}, got {feature!r}")
    return j


def _unit(model: Ensemble, unit: str | None) -> tuple[float, str]:
    """Return the factor of the scores and what they are then."""
    if unit is None:
        unit = "log-odds" if model.loss in LOG_ODDS else "score"
    if unit == "score":
        return 1.0, unit
    if unit != "log-odds" or model.loss not in LOG_ODDS:
        raise ValueError(
            f"unit must be 'score' or, with one of the losses {list(LOG_ODDS)}, 'log-odds', "
            f"got {unit!r} with {model.loss!r}"
        )
    return LOG_ODDS[model.loss], unit


def _steps(model: Ensemble, j: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the cuts of a feature in order, and the sum of its stumps between them."""
    jumps: dict[float, float] = {}
    for learner, weight in zip(model.learners, model.weights, strict=True):
        if not isinstance(learner, Stump | Constant):
            raise TypeError(
                f"ensemble must consist of stumps to have shapes, got a {type(learner).__name__}"
            )
        if isinstance(learner, Stump) and learner.feature == j:
            jumps[learner.threshold] = jumps.get(learner.threshold, 0.0) + weight * learner.polarity
    cuts = np.array(sorted(jumps))
    votes = np.array([jumps[cut] for cut in cuts])
    return cuts, np.concatenate([[0.0], 2.0 * np.cumsum(votes)]) - votes.sum()


def _column(model: Ensemble, X: Any, j: int) -> np.ndarray:
    values = model.checked_rows(X)[:, j].astype(float)
    values = values[np.isfinite(values)]  # they are, if a stump looks at them
    if not len(values):
        raise ValueError("X must have at least one row, got none")
    return values


def _ends(cuts: np.ndarray, values: np.ndarray) -> tuple[float, float]:
    """Return where the curve begins and ends: with the values, or a little outside the cuts."""
    both = np.concatenate([cuts, values]) if len(cuts) + len(values) else np.array([0.0, 1.0])
    low, high = float(both.min()), float(both.max())
    margin = 0.15 * (high - low) or max(0.5 * abs(low), 1.0)
    begins = values.min(initial=np.inf) < cuts.min(initial=high)
    ends = values.max(initial=-np.inf) > cuts.max(initial=low)
    return low if begins else low - margin, high if ends else high + margin


def _draw_rug(ax: Any, values: np.ndarray) -> None:
    if len(values):
        ranks = np.linspace(0, len(values) - 1, min(len(values), MOST_TICKS)).astype(int)
        ticks = {"marker": "|", "ls": "none", "ms": 9, "color": "0.3", "alpha": 0.4}
        height = np.full(len(ranks), 0.03)  # of the axes
        ax.margins(y=0.12)  # room for it below the curve
        ax.plot(np.sort(values)[ranks], height, transform=ax.get_xaxis_transform(), **ticks)


def _new_axes() -> Any:
    try:
        import matplotlib.pyplot as plt
    except ModuleNotFoundError as e:
        raise ModuleNotFoundError(
            f'pictures need matplotlib ({e}); install with pip install "totalqboost[cli]"'
        ) from e
    return plt.subplots(figsize=(7, 4), layout="constrained")[1]


# -- the frontier as a table -------------------------------------------------------------


def frontier_text(front: Any) -> str:
    """Return the frontier as a table for a terminal, one line per size."""
    return _frontier_table(front).text()


def frontier_html(front: Any) -> str:
    """Return the frontier as a table for a notebook, one row per size."""
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
