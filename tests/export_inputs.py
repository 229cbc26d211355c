"""Rows on which exports go wrong, and ensembles whose text does: for tests of every exporter."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from totalqboost import Constant, Ensemble, Stump
from totalqboost.export.model import exportable
from totalqboost.learners import Both, CategorySet, Feature, Learner, Missing

NASTY = (
    "'",
    '"; DROP TABLE rows; --',
    "');--",
    "two\nlines",
    "<script>alert(1)</script>",
    "*/ int x; /*",
    "",
    "größe ☃",
    "back\\",
    "%s {0} {x!r}",
    '"""',
    "??/",
    "a\tb\r",
    "|",
    "NULL",
    "nan",
)
UNSEEN = "a category that training has not seen"


def tricky_rows(
    model: Any, n: int = 100_000, dtype: Any = np.float64, seed: int = 0, infinite: bool = True
) -> np.ndarray:
    """Return rows at random, at, and one ulp either side of every threshold of the model.

    As learners look at them: numbers with NaN and, if ``infinite``, infinities among them; codes of
    categories with -1 for one that training has not seen. ``Ensemble.scores`` takes them.
    """
    ensemble = exportable(model)
    rng = np.random.default_rng(seed)
    X = np.empty((n, len(ensemble.features)), dtype=dtype)
    for j, feature in enumerate(ensemble.features):
        if feature.categories is not None:
            X[:, j] = rng.integers(-1, len(feature.categories), n)
            continue
        cuts = _cuts(ensemble, j, dtype)
        near = cuts if len(cuts) else np.zeros(1, dtype)
        scale = np.asarray(np.maximum(np.abs(near), np.finfo(dtype).tiny) / 2, dtype)
        which = rng.integers(len(near), size=n)
        with np.errstate(over="ignore"):
            X[:, j] = near[which] + scale[which] * rng.normal(size=n)
        special = [*_around(cuts), *_specials(dtype, infinite)]
        chosen = rng.random(n) < 0.6
        X[chosen, j] = rng.choice(np.array(special, dtype), chosen.sum())
    if not infinite:
        X[np.isinf(X)] = 1.0
    return X


def _parts(learner: Learner) -> tuple[Any, ...]:
    return learner.parts if isinstance(learner, Both) else (learner,)


def _cuts(ensemble: Ensemble, j: int, dtype: Any) -> np.ndarray:
    parts = [part for h in ensemble.learners for part in _parts(h)]
    found = [h.threshold for h in parts if isinstance(h, Stump) and h.feature == j]
    with np.errstate(over="ignore"):
        return np.unique(np.array(found, dtype=float)).astype(dtype)


def _around(cuts: np.ndarray) -> list[Any]:
    """Return the numbers nearest to each cut: it is one of them, or lies between two of them."""
    up, down = cuts.dtype.type(np.inf), cuts.dtype.type(-np.inf)
    above, below = np.nextafter(cuts, up), np.nextafter(cuts, down)
    return [*cuts, *above, *below, *np.nextafter(above, up), *np.nextafter(below, down)]


def _specials(dtype: Any, infinite: bool) -> list[float]:
    limits = np.finfo(dtype)
    found = [np.nan, np.nan, 0.0, -0.0, limits.max, limits.min, limits.tiny, -limits.tiny]
    return [*found, np.inf, -np.inf] if infinite else found


def labels_of(model: Any, X: np.ndarray) -> np.ndarray:
    """Return the labels of such rows as the library gives them."""
    ensemble = exportable(model)
    return np.array(ensemble.classes, dtype=object)[numbers_of(ensemble, X)]


def numbers_of(model: Any, X: np.ndarray) -> np.ndarray:
    """Return the number of the class of such rows."""
    scores = exportable(model).scores(X)
    return scores.argmax(axis=1) if scores.ndim > 1 else (scores > 0).astype(int)


def raw_columns(model: Any, X: np.ndarray) -> dict[str, list[Any]]:
    """Return such rows as people have them, by column: None is missing, categories have labels."""
    columns: dict[str, list[Any]] = {}
    for j, feature in enumerate(exportable(model).features):
        if feature.categories is None:
            columns[feature.name] = [None if x != x else x for x in X[:, j].tolist()]
        else:
            unseen = UNSEEN if any(isinstance(c, str) for c in feature.categories) else -12345
            labels = np.array([*feature.categories, unseen], dtype=object)
            columns[feature.name] = labels[X[:, j].astype(int)].tolist()
    return columns


# -- ensembles at random ---------------------------------------------------------------------

thresholds = st.one_of(
    st.floats(-100, 100),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([0.0, -0.0, 0.1, 1e-300, 5e-324, 1.7e308, -3.5e38, 16777217.0]),
)
# Sums of these are exact in any order, so that scores of exactly 0 and ties are met and agreed on.
dyadic = st.integers(-(2**12), 2**12).map(lambda k: k / 2**6)


@st.composite
def features(draw: Any, numbers_only: bool = False) -> tuple[Feature, ...]:
    """Columns of numbers and of categories, of all names and labels."""
    names = draw(st.lists(st.sampled_from(NASTY), min_size=1, max_size=4, unique=True))
    return tuple(Feature(name, None if numbers_only else draw(_categories())) for name in names)


def _categories() -> Any:
    texts = st.lists(st.one_of(st.sampled_from(NASTY)), min_size=1, max_size=5, unique=True)
    numbers = st.lists(st.one_of(st.integers(-5, 5), dyadic), min_size=1, max_size=5, unique=True)
    lists = st.one_of(texts, numbers, st.just([False, True]))
    with_gap = st.tuples(lists, st.booleans()).map(lambda p: (*p[0], None) if p[1] else (*p[0],))
    return st.one_of(st.none(), st.none(), with_gap)


@st.composite
def conditions(draw: Any, columns: tuple[Feature, ...]) -> Learner:
    """A stump, a set of categories, or "missing"."""
    j = draw(st.integers(0, len(columns) - 1))
    polarity = draw(st.sampled_from([-1, 1]))
    own = columns[j].categories
    if own is not None:
        codes = draw(st.sets(st.integers(0, len(own) - 1), min_size=1))
        return CategorySet(j, tuple(sorted(codes)), polarity)
    if draw(st.integers(0, 4)) == 0:
        return Missing(j, polarity)
    return Stump(j, draw(thresholds), polarity, draw(st.booleans()))


@st.composite
def learners(draw: Any, columns: tuple[Feature, ...]) -> Learner:
    """A weak classifier of any kind that can be exported."""
    kind = draw(st.integers(0, 9))
    polarity = draw(st.sampled_from([-1, 1]))
    if kind == 0:
        return Constant(polarity)
    if kind <= 2:
        return Both.of(draw(conditions(columns)), draw(conditions(columns)), polarity)
    return draw(conditions(columns))


@st.composite
def ensembles(draw: Any, numbers_only: bool = False) -> Ensemble:
    """An ensemble of two classes or more, with weights whose sums are exact."""
    columns = draw(features(numbers_only))
    own = draw(st.lists(learners(columns), max_size=6))
    labels = st.one_of(st.sampled_from(NASTY), st.integers(-(2**40), 2**40))
    kind = draw(st.sampled_from([str, int]))
    if kind is str:
        labels = st.sampled_from(NASTY)
    else:
        labels = st.integers(-(2**40), 2**40)
    n_classes = draw(st.sampled_from([2, 2, 3, 5]))
    classes = draw(st.lists(labels, min_size=n_classes, max_size=n_classes, unique=True))
    if n_classes == 2:
        weights: Any = [draw(dyadic.filter(lambda w: w > 0)) for _ in own]
        loss = draw(st.sampled_from(["logistic", "exponential", "squared", "smoothed_hinge"]))
        return Ensemble(own, weights, draw(dyadic), classes, columns, loss)
    some = st.tuples(*[dyadic] * n_classes).filter(any)
    weights = [draw(some) for _ in own]
    intercept = draw(st.tuples(*[dyadic] * n_classes))
    return Ensemble(own, weights, intercept, classes, columns, "multinomial")
