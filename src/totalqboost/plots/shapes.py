"""What one feature contributes to the scores: a curve, or bars for categories."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from totalqboost import losses
from totalqboost.ensemble import Ensemble, Shape, shape_of
from totalqboost.plots.axes import new_axes
from totalqboost.tabular import encode

__all__ = ["plot_shape"]

# Losses whose scores are log-odds but for a factor.
LOG_ODDS = {n: x for n in losses.names() if (x := losses.get(n).log_odds) is not None}
MOST_TICKS = 500  # in a rug: more would be a black bar
STYLES = ("-", "--", ":", "-.")  # after ten classes colours repeat


def plot_shape(
    ensemble: Any,
    feature: int | str,
    X: Any = None,
    *,
    unit: str | None = None,
    label: Any = None,
    ax: Any = None,
) -> Any:
    """Draw what one feature contributes to the score, whatever the other features are.

    The score is a sum of such functions and the intercept, so that the pictures of all features
    are the whole model. A number gives a curve, and a mark for what a missing value contributes;
    categories give bars. Of more than two classes each has a curve.

    Parameters
    ----------
    ensemble : Ensemble or fitted classifier
        The model.
    feature : int or str
        Number or name of the column.
    X : array or data frame, optional
        Rows, e.g. the training data. Their values are drawn as a rug (categories are counted),
        and the curve is centred: the mean over these rows is 0, and the height at a value is the
        feature's SHAP value there, as ``ensemble.explain(x, background=X)`` gives it.
    unit : {"log-odds", "score"}, optional
        By default log-odds where the score is a multiple of them (logistic and exponential loss).
    label : object, optional
        Draw the curve of this class alone. By default that of the second of two, and of more all.
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
    drawn = _drawn(model, label, factor)
    shape = shape_of(model, j)
    values = np.empty(0) if X is None else _column(model, X, j)
    shape = shape if X is None else shape.centred(values)
    ax = new_axes() if ax is None else ax
    of_class = f" of {drawn[0].label}" if len(drawn) == 1 else ""
    quantity = f"contribution to the {quantity}{of_class}"
    # A name may hold dollars, which are no mathematics.
    if shape.is_categorical:
        _draw_bars(ax, shape, drawn, values)
        ax.set_xlabel(quantity, parse_math=False)
        ax.set_ylabel(shape.feature.name, parse_math=False)
    else:
        _draw_curves(ax, shape, drawn, values)
        ax.set_xlabel(shape.feature.name, parse_math=False)
        ax.set_ylabel(quantity, parse_math=False)
    if len(drawn) > 1:
        legend = ax.legend(frameon=False, ncols=1 + (len(drawn) - 1) // 10)
        for text in legend.get_texts():
            text.set_parse_math(False)
    return ax


@dataclass(frozen=True)
class Curve:
    """One class in the picture: its column of the shape, and how it looks."""

    label: str
    column: int
    factor: float
    colour: str = "C0"
    style: str = "-"


# -- what is asked for -------------------------------------------------------------------


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


def _drawn(model: Ensemble, label: Any, factor: float) -> list[Curve]:
    """Return the classes to draw."""
    if label is not None and label not in model.classes:
        raise ValueError(f"label must be one of {model.classes} or None, got {label!r}")
    if not model.is_multiclass:  # the first of two has minus the score of the second
        is_first = label is not None and model.classes.index(label) == 0
        return [Curve(repr(model.classes[not is_first]), 0, -factor if is_first else factor)]
    return [
        Curve(repr(own), k, factor, f"C{k % 10}", STYLES[k // 10 % len(STYLES)])
        for k, own in enumerate(model.classes)
        if label is None or own == label
    ]


def _column(model: Ensemble, X: Any, j: int) -> np.ndarray:
    """Return the values of a feature, NaN where they are missing."""
    rows = model.checked_rows(X)
    if j not in model.used_features and model.features:
        rows = encode(X, model.features, "X", used={j})
    if not len(rows):
        raise ValueError("X must have at least one row, got none")
    return rows[:, j].astype(float)


# -- numbers -----------------------------------------------------------------------------


def _draw_curves(ax: Any, shape: Shape, drawn: Sequence[Curve], values: np.ndarray) -> None:
    """Draw step functions, and marks at the right for missing values, if there are such."""
    present = values[np.isfinite(values)]
    low, high = _ends(shape.cuts, present)
    width = high - low
    has_gaps = shape.feature.has_missing or len(present) < len(values)
    ax.axhline(0.0, color="0.8", lw=1, zorder=1)
    for curve in drawn:
        heights = curve.factor * shape.levels[:, curve.column]
        look = {"color": curve.colour, "ls": curve.style, "label": curve.label}
        ax.stairs(heights, [low, *shape.cuts, high], baseline=None, lw=2, zorder=3, **look)
        if has_gaps:
            height = curve.factor * shape.other[curve.column]
            mark = {"marker": "D", "ms": 7, "ls": "none", "color": curve.colour, "zorder": 4}
            ax.plot([high + 0.07 * width], [height], **mark)
    if has_gaps:
        ax.axvline(high + 0.02 * width, color="0.8", lw=1, ls=":", zorder=1)
        words = {"ha": "center", "va": "bottom", "fontsize": "small"}
        across = ax.get_xaxis_transform()
        ax.text(high + 0.07 * width, 1.0, "missing", transform=across, **words)
    _draw_rug(ax, present)


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


# -- categories --------------------------------------------------------------------------


def _draw_bars(ax: Any, shape: Shape, drawn: Sequence[Curve], values: np.ndarray) -> None:
    """Draw a bar for each category, the first on top; a missing value is hatched."""
    codes, names, levels = shape.bars()
    if len(values):
        is_other = (values >= 0) & ~np.isin(values, codes)
        counts = [(is_other if code < 0 else values == code).sum() for code in codes]
        names = [f"{name} ({count})" for name, count in zip(names, counts, strict=True)]
    labels = shape.feature.categories or ()
    is_gap = [code >= 0 and labels[code] is None for code in codes]
    thickness = 0.8 / len(drawn)
    for k, curve in enumerate(drawn):
        at = np.arange(len(names)) + (k - (len(drawn) - 1) / 2) * thickness
        heights = curve.factor * levels[:, curve.column]
        look = {"color": curve.colour, "label": curve.label, "zorder": 3}
        for bar, gap in zip(ax.barh(at, heights, thickness, **look), is_gap, strict=True):
            bar.set(hatch="///" if gap else None, edgecolor="white", lw=0)
    ax.axvline(0.0, color="0.6", lw=1, zorder=4)
    ax.set_yticks(np.arange(len(names)), names, parse_math=False)
    ax.invert_yaxis()
