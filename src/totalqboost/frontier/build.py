"""frontier(): search every size, and measure what was found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from totalqboost.boosting import Event, SizePoint, every_size
from totalqboost.cluster.training import training_examples
from totalqboost.dictionaries.base import Dictionary
from totalqboost.examples import Examples, check_validation
from totalqboost.frontier.measured import named_points, on_rows, with_held_out
from totalqboost.frontier.points import Frontier
from totalqboost.frontier.validated import CrossValidation, validated_frontier
from totalqboost.losses import Loss
from totalqboost.parameters import check_integer
from totalqboost.selection import check_choices, check_dictionaries
from totalqboost.settings import Settings, check_settings, generator, warn_if_separated
from totalqboost.solving import Interrupted, MasterSolver, SolverError
from totalqboost.wishes import check_wishes

__all__ = ["frontier"]


def frontier(
    X: Any,
    y: Any,
    X_valid: Any = None,
    y_valid: Any = None,
    *,
    sample_weight: Any = None,
    class_weight: Any = None,
    categorical_features: Any = "from_dtype",
    feature_costs: Any = None,
    max_features: int | None = None,
    monotonic_cst: Any = None,
    cv: Any = None,
    groups: Any = None,
    scoring: Any = None,
    max_learners: int = 30,
    loss: str | Loss = "logistic",
    dictionary: str | Dictionary | Sequence[Dictionary] = "stumps",
    solver: str | MasterSolver = "local",
    l1_penalty: float | str | Sequence[float] = "auto",
    tol: float | str = 5e-4,
    fit_intercept: bool = True,
    multiclass: str = "joint",
    n_bits: int | None = None,
    random_state: Any = None,
    n_jobs: int | None = None,
    on_event: Event | None = None,
) -> Frontier:
    """Return small ensembles of every size up to ``max_learners``.

    Each is the best of its size that a search over the whole dictionary finds. Without ``cv`` it
    is never worse than plain column generation stopped at that size, and the same that
    ``TotalQBoostClassifier(0, max_learners=...)`` finds with the same limit.

    Parameters
    ----------
    X, y : arrays
        Training examples and their labels, two classes or more.
    X_valid, y_valid : arrays, optional
        Rows on which to measure the validation error.
    sample_weight : array, optional
        Weight of each training example; the training error is weighted too.
    cv : int, splitter or folds, optional
        Cross-validate: folds of scikit-learn's kind. For every size the l1 price with the least
        out-of-fold log-loss is used (of 2, 4 and 8 over n, or of those given), and the
        points carry out-of-fold errors. The frontier itself is trained on all rows, and its
        weights are then multiplied by the factor of least out-of-fold log-loss.
    groups : array, optional
        Group of each row, for splitters that keep groups together; standard errors are those
        of groups then.
    scoring : str or callable, optional
        With ``cv``, a scorer of scikit-learn to choose by instead of log-loss and error.
    max_learners : int
        Largest size. A size that is no better than a smaller one is left out.
    categorical_features : "from_dtype", array-like or None
        Which columns hold categories, as in :class:`totalqboost.TotalQBoostClassifier`.
    feature_costs : float, array-like or dict, optional
        What it costs to look at a feature, however many weak classifiers do, in units of
        0.5/n, the price of a weak classifier: a sensor is paid once. A number for all,
        one per column, or some by name.
    max_features : int, optional
        A limit on the number of features that the ensemble looks at.
    monotonic_cst : array-like or dict, optional
        1 where the score may only rise with a feature, -1 where it may only fall, 0 for the
        others; as in scikit-learn's HistGradientBoostingClassifier.
    dictionary : str, Dictionary or sequence
        With ``cv`` several to choose among, e.g. ``[Stumps(), Stumps(24), Stumps(8)]``.
    l1_penalty : float, "auto" or sequence of floats
        As in :class:`totalqboost.TotalQBoostClassifier`; with ``cv`` several to choose among.
    solver : str or MasterSolver
        One other than "local" is asked about every size, over the columns that the search
        generated. With "exact" that gives each size a bound.
    on_event : callable, optional
        Called with :class:`totalqboost.boosting.Searched` as the search goes on.
    n_jobs : int, optional
        Threads for the search over features in large data; with ``cv``, folds in parallel.
    loss, tol, fit_intercept, class_weight, multiclass, n_bits, random_state
        As in :class:`totalqboost.TotalQBoostClassifier`.

    Raises
    ------
    Interrupted
        On Ctrl-C; its ``result`` is the frontier found so far (None before all folds are done).
    SolverError
        If the solver fails; its ``result`` is the frontier of the sizes done.

    Examples
    --------
    >>> from totalqboost import frontier
    >>> from totalqboost.datasets import make_twonorm
    >>> X, y = make_twonorm(600, seed=1)
    >>> front = frontier(X[:400], y[:400], X[400:], y[400:], max_learners=3)
    >>> [point.n_learners for point in front]
    [0, 1, 2, 3]
    """
    check_integer("max_learners", max_learners, 1)
    if (X_valid is None) != (y_valid is None):
        raise ValueError("X_valid and y_valid must be given together")
    for name, value in (("groups", groups), ("scoring", scoring)):
        if cv is None and value is not None:
            raise ValueError(f"{name} is of use with cv only; give cv too")
    how = None if cv is None else CrossValidation(cv, groups, scoring, n_jobs)
    offered = check_dictionaries(dictionary, can_choose=how is not None)
    settings = check_settings(
        loss,
        offered[0],
        solver,
        "auto" if how is not None else l1_penalty,  # type: ignore[arg-type]
        0.0,
        max_learners,
        tol,
        fit_intercept,
        n_jobs if how is None else None,
        n_bits,
        multiclass=multiclass,
        wishes=check_wishes(feature_costs, max_features, monotonic_cst),
    )
    choices = check_choices(l1_penalty, len(offered)) if how is not None else []
    if how is not None and X_valid is not None:
        raise ValueError("cv and X_valid are alternatives; give one of them")
    rng = generator(random_state)
    with training_examples(
        X,
        y,
        sample_weight,
        class_weight=class_weight,
        categorical_features=categorical_features,
        dictionaries=offered,
    ) as examples:
        examples = settings.constrained(examples)
        if how is not None:
            front, _ = validated_frontier(
                settings, offered, choices, examples, how, max_learners, rng, on_event
            )
        else:
            valid = None if X_valid is None else check_validation(X_valid, y_valid, examples)
            front = _plain_frontier(settings, examples, valid, max_learners, rng, on_event)
        return _warned(front, examples, settings.loss)


def _warned(front: Frontier, examples: Examples, loss: Loss) -> Frontier:
    """Return the frontier; say so if its largest ensemble separates the classes."""
    last = front.points[-1]
    warn_if_separated(last.ensemble, examples, loss, last.l1_penalty)
    return front


def _plain_frontier(
    settings: Settings,
    examples: Examples,
    valid: Examples | None,
    max_learners: int,
    rng: np.random.Generator,
    on_event: Event | None,
) -> Frontier:
    """Search all sizes with one l1 price."""
    engine = settings.engine(examples, rng)
    n_columns = engine.oracle.n_columns

    def measured(found: list[SizePoint], settings: Settings) -> Frontier:
        ensembles = settings.finished([p.ensemble for p in found], examples, engine.oracle)
        points = tuple(named_points(found, examples, settings.loss, engine.terms.nu, ensembles))
        front = Frontier(points, examples.n_effective, n_columns)
        if valid is None:
            return front
        own = [point.ensemble for point in points]
        return with_held_out(front, on_rows(own, valid, settings.loss))

    found: list[SizePoint] = []
    try:
        found = every_size(engine, max_learners, on_event)
        return measured(found, settings)
    except (Interrupted, SolverError) as stop:
        found = found if stop.result is None else stop.result
        stop.result = measured(found, settings.after(stop))
        raise
