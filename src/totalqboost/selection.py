"""Cross-validation over sizes, l1 prices and bins, and the rules that choose a size.

The data are coded once; a fold takes its rows of the codes. Within a fold, the search with one
l1 price starts the searches with the others. Folds do not start each other: what a fold found
has seen the rows that another holds out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from totalqboost import dictionaries
from totalqboost.boosting import Snapshot, found_sizes
from totalqboost.classifier import EnsembleClassifier
from totalqboost.dictionaries.base import Dictionary, Oracle
from totalqboost.ensemble import Ensemble
from totalqboost.examples import Examples, RemoteTable
from totalqboost.folds import Fold
from totalqboost.held_out import HeldOut, Measure, joined
from totalqboost.interruption import held_back
from totalqboost.losses import Loss
from totalqboost.multiclass import class_numbers
from totalqboost.penalties import check_l1_penalty, l1_price
from totalqboost.settings import Settings

__all__ = [
    "RULES",
    "Choice",
    "Validated",
    "check_choices",
    "check_dictionaries",
    "check_rule",
    "check_scoring",
    "choose",
    "cross_validate",
    "filled",
    "score_folds",
]

L1_FACTORS = (1.0, 0.5, 2.0)  # of the automatic price; the first starts the others
RULES = ("paired", "1se", "min", "ric")

Rule = str | Callable[[Any], int]


@dataclass(frozen=True)
class Choice:
    """One of the settings to choose among: a dictionary and an l1 price.

    The price is a factor of "auto", or a number if there is no factor.
    """

    dictionary: int  # its place among those given
    factor: float | None = None
    number: float = 0.0

    def l1_penalty(self, n_rows: float) -> float:
        """Return nu for so many rows; a number is the same for any."""
        return self.number if self.factor is None else self.factor * l1_price("auto", n_rows)


@dataclass(frozen=True, eq=False)
class Validated:
    """The ensembles of a choice in every fold, and what they do on the rows held out.

    ``ensembles[f][k]`` is that of at most k learners in fold f.
    """

    choice: Choice
    ensembles: list[list[Ensemble]]
    held_out: HeldOut


def check_rule(rule: Any) -> None:
    """Raise unless the value is the name of a rule or a callable."""
    if not callable(rule) and rule not in RULES:
        names = ", ".join(repr(name) for name in RULES)
        raise ValueError(f"rule must be one of {names} or a callable, got {rule!r}")


def check_dictionaries(dictionary: Any, can_choose: bool = True) -> list[Dictionary]:
    """Return the dictionaries to choose among: one, unless there is something to choose by."""
    if not isinstance(dictionary, list | tuple):
        return [dictionaries.get(dictionary)]
    if not can_choose:
        raise ValueError(
            "dictionary must be one dictionary; several can be chosen among with cv, "
            f"got {dictionary!r}"
        )
    if not dictionary:
        raise ValueError("dictionary must be a dictionary or some of them, got none")
    return [dictionaries.get(one) for one in dictionary]


def check_choices(l1_penalty: Any, n_dictionaries: int) -> list[Choice]:
    """Return all pairs of a dictionary and an l1 price; "auto" stands for several prices."""
    if isinstance(l1_penalty, str):
        check_l1_penalty(l1_penalty)
        prices: list[tuple[float | None, float]] = [(factor, 0.0) for factor in L1_FACTORS]
    else:
        prices = []
        for value in np.atleast_1d(np.asarray(l1_penalty, dtype=object)):
            check_l1_penalty(value)
            prices.append((1.0, 0.0) if value == "auto" else (None, float(value)))
    if not prices:
        raise ValueError("l1_penalty must be 'auto', a number or some numbers, got none")
    return [Choice(d, *price) for d in range(n_dictionaries) for price in prices]


def cross_validate(
    settings: Settings,
    examples: Examples,
    oracles: Sequence[Oracle],
    folds: Sequence[Fold],
    choices: Sequence[Choice],
    max_learners: int,
    *,
    groups: Any = None,
    n_jobs: int | None = None,
    on_fold: Callable[[int, int], None] | None = None,
) -> list[Validated]:
    """Train every choice in every fold, for all sizes, and score the rows held out.

    ``oracles`` are those of the dictionaries, over all rows. ``on_fold`` is called with the
    number of folds done and of all.
    """
    from sklearn.utils.parallel import Parallel, delayed

    tasks = (
        delayed(_run_fold)(
            settings,
            examples.at(fold.train),
            [oracle.subset(fold.train) for oracle in oracles],
            choices,
            max_learners,
        )
        for fold in folds
    )
    ensembles: list[list[list[Ensemble]]] = []
    if isinstance(examples.X, RemoteTable):
        n_jobs = None  # the workers that hold the rows are the ones who work
    with held_back(n_jobs):
        runs = Parallel(n_jobs=n_jobs, return_as="generator")(tasks)
    for found in runs:
        ensembles.append(found)
        if on_fold is not None:
            on_fold(len(ensembles), len(folds))
    cluster = np.arange(len(examples)) if groups is None else _numbered(groups)
    results = []
    for c, choice in enumerate(choices):
        of_choice = [found[c] for found in ensembles]
        parts = [
            _held_out(settings, examples, fold.test, number, own, cluster)
            for number, (fold, own) in enumerate(zip(folds, of_choice, strict=True))
        ]
        results.append(Validated(choice, of_choice, joined(parts)))
    return results


def _numbered(groups: np.ndarray) -> np.ndarray:
    """Return numbers for groups of any kind, None among them."""
    numbers: dict[Any, int] = {}
    return np.array([numbers.setdefault(group, len(numbers)) for group in groups.tolist()])


def _run_fold(
    settings: Settings,
    examples: Examples,
    oracles: Sequence[Oracle],
    choices: Sequence[Choice],
    max_learners: int,
) -> list[list[Ensemble]]:
    """Return for every choice the ensembles of at most 0, 1, ... learners."""
    starts: dict[int, list[Snapshot]] = {}
    found = []
    for choice in choices:
        own = settings.changed(l1_penalty=choice.l1_penalty(examples.n_effective))
        engine = own.engine(examples, np.random.default_rng(0), oracles[choice.dictionary])
        sizes = found_sizes(engine, max_learners, starts.get(choice.dictionary, ()))
        starts.setdefault(choice.dictionary, [s for s, e in sizes if e.n_learners > 0])
        ensembles = [ensemble for _, ensemble in sizes]
        if examples.n_classes > 2:
            oracle = oracles[choice.dictionary]
            ensembles = own.finished(ensembles, examples, oracle, is_quick=True)
        found.append(filled(ensembles, max_learners))
    return found


def filled(ensembles: Sequence[Ensemble], max_learners: int) -> list[Ensemble]:
    """Return the largest ensemble of at most 0, 1, ..., ``max_learners`` learners."""
    by_size = {ensemble.n_learners: ensemble for ensemble in ensembles}
    found = []
    last = ensembles[0]
    for size in range(max_learners + 1):
        last = by_size.get(size, last)
        found.append(last)
    return found


def _held_out(
    settings: Settings,
    examples: Examples,
    rows: np.ndarray,
    fold: int,
    ensembles: Sequence[Ensemble],
    cluster: np.ndarray,
) -> HeldOut:
    held_out = examples.at(rows)
    return HeldOut(
        np.array([held_out.scores(ensemble) for ensemble in ensembles]),
        examples.y[rows],
        examples.weight[rows],
        np.full(len(rows), fold),
        cluster[rows],
        settings.loss,
    )


def check_scoring(scoring: Any) -> Callable[..., float] | None:
    """Return the scorer of a name, or the callable itself."""
    if scoring is None or callable(scoring):
        return scoring
    if not isinstance(scoring, str):
        raise ValueError(f"scoring must be the name of a scorer or a callable, got {scoring!r}")
    from sklearn.metrics import get_scorer

    return get_scorer(scoring)


def score_folds(
    scorer: Callable[..., float],
    validated: Validated,
    examples: Examples,
    folds: Sequence[Fold],
    loss: Loss,
) -> Measure:
    """Return the mean over folds of a scorer of scikit-learn, for every size.

    Folds where it has no value (the AUC of one class) do not count.
    """
    if isinstance(examples.X, RemoteTable):
        raise ValueError("scoring must be None for collections of Dask: scorers need the rows")
    labels = examples.classes[class_numbers(examples.y, examples.n_classes)]
    values = np.array(
        [
            [
                scorer(_fitted(e, examples, loss), examples.X[fold.test], labels[fold.test])
                for e in ensembles
            ]
            for fold, ensembles in zip(folds, validated.ensembles, strict=True)
        ],
        dtype=float,
    )
    values = values[np.isfinite(values).all(axis=1)]
    if not len(values):
        raise ValueError("scoring must give a number for the rows of at least one fold")
    spread = values.std(axis=0, ddof=1) if len(values) > 1 else np.zeros(values.shape[1])
    return Measure(values.mean(axis=0), spread / np.sqrt(len(values)))


def _fitted(ensemble: Ensemble, examples: Examples, loss: Loss) -> EnsembleClassifier:
    """Return an ensemble as scorers of scikit-learn want it."""
    model = EnsembleClassifier()
    model.ensemble_, model.classes_, model.loss_ = ensemble, examples.classes, loss
    return model


# -- choosing -------------------------------------------------------------------------------


def choose(rule: str, error: Measure, held_out: HeldOut | None, score: Measure | None) -> int:
    """Return the place of the size that a rule chooses; ties go to the smaller size.

    Parameters
    ----------
    rule : {"min", "1se", "paired"}
        The least error; the smallest size within one standard error of it; or the smallest
        whose rows have on average no more than one standard error of excess, row by row.
    error : Measure
        Of each size, ascending.
    held_out : HeldOut, optional
        Rows of each size, for "paired".
    score : Measure, optional
        A score to use instead of the error; higher is better.
    """
    if score is not None:
        error = Measure(-score.mean, score.se)
    best = int(np.argmin(error.mean))
    if rule == "min":
        return best
    if rule == "paired" and held_out is not None and score is None:
        excess = held_out.excess(held_out.wrong, best)
        return int(np.argmax(excess.mean <= excess.se))
    return int(np.argmax(error.mean <= error.mean[best] + error.se[best]))
