"""Settings: what the estimators and the frontier are told, checked, and the engine made of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from totalqboost import dictionaries, losses, solvers
from totalqboost.boosting import Engine, Terms
from totalqboost.boosting.drafts import drawn_rows
from totalqboost.cluster.connect import ClusterError
from totalqboost.cluster.oracle import ClusterOracle
from totalqboost.cluster.support import RemoteSupport
from totalqboost.cluster.tables import ClusterTable
from totalqboost.dictionaries.base import Dictionary, Oracle, SampledOracle
from totalqboost.dictionaries.classes import ClassOracle
from totalqboost.dictionaries.pairs import PairOracle
from totalqboost.dictionaries.stumps import StumpOracle
from totalqboost.ensemble import Ensemble
from totalqboost.examples import Examples
from totalqboost.fixed_point import check_integer_bits
from totalqboost.learners import Both, Learner, Stump
from totalqboost.losses import Loss
from totalqboost.multiclass import MODES, MULTINOMIAL, ClassWeights, check_mode, margins
from totalqboost.notices import warn
from totalqboost.paper import EPSILON, tolerance
from totalqboost.parameters import check_flag, check_integer, check_jobs, check_number, short
from totalqboost.penalties import (
    cardinality_price,
    check_cardinality_penalty,
    check_l1_penalty,
    extra_price,
    l1_price,
)
from totalqboost.solving import MasterSolver
from totalqboost.wishes import FeatureWishes

__all__ = ["Settings", "check_settings", "generator", "warn_if_separated"]

NO_WISHES = FeatureWishes()
ROUNDING = 1e-9  # of sums of weights
FAR_ROWS = 5_000_000  # on a cluster: of more, no column of two classes comes to the driver
NO_PRICE = 0.02  # nu x rows below which weights are as good as free


@dataclass(frozen=True)
class Settings:
    """Parts that a user may exchange, and the prices as they were typed."""

    loss: Loss
    dictionary: Dictionary
    solver: MasterSolver
    l1_penalty: float | str
    cardinality_penalty: float | str
    max_learners: int | None
    tol: float | str
    fit_intercept: bool
    n_jobs: int | None
    multiclass: str = MODES[0]
    wishes: FeatureWishes = NO_WISHES
    n_bits: int | None = None

    @property
    def is_penalised(self) -> bool:
        """Whether weak classifiers have a price or a limit."""
        has_price = isinstance(self.cardinality_penalty, str) or self.cardinality_penalty > 0
        is_limited = self.max_learners is not None or self.wishes.max_features is not None
        return has_price or is_limited or self.wishes.costs is not None

    def constrained(self, examples: Examples) -> Examples:
        """Return the examples with the wishes for their features."""
        return replace(examples, features=self.wishes.constrained(examples.features))

    def oracle(self, examples: Examples) -> Oracle:
        """Return the oracle of the dictionary for some examples."""
        if isinstance(examples.X, ClusterTable):
            return examples.X.oracle(self.dictionary, examples, self.loss)
        known = self.n_jobs, examples.features, examples.weight
        if examples.n_classes == 2:
            return self.dictionary.prepare(examples.X, examples.y, *known)
        if any(feature.monotone for feature in examples.features):
            raise ValueError(
                f"monotonic_cst is for two classes, got {examples.n_classes}: a feature may raise "
                "one class and lower another"
            )
        ones = np.ones(len(examples), dtype=np.int8)
        base = self.dictionary.prepare(examples.X, ones, *known)
        if isinstance(self.dictionary, dictionaries.Columns):  # a column is a cut at 0
            base = dictionaries.Stumps().prepare(examples.X, ones, self.n_jobs)
        if not isinstance(base, StumpOracle):
            raise ValueError(
                "dictionary must be 'stumps' or 'columns' for more than two classes, "
                f"got {self.dictionary!r}"
            )
        return ClassOracle(base, examples.y, examples.n_classes)

    def terms(self, examples: Examples, oracle: Oracle) -> Terms:
        """Return what is minimised, names of prices replaced by numbers."""
        n_rows, parts = examples.n_effective, self.rows_per_example(examples)
        weight = examples.weight
        price = cardinality_price(self.cardinality_penalty, n_rows, oracle.n_columns)
        unit = price or cardinality_price("auto", n_rows, oracle.n_columns)
        costs = self.wishes.prices(examples.features)
        is_special = isinstance(oracle, PairOracle) or any(
            f.has_missing or f.categories is not None for f in examples.features
        )
        return Terms(
            self.loss,
            weight if parts == 1 else np.repeat(weight / parts, parts),
            l1_price(self.l1_penalty, n_rows) / parts,
            price / parts,
            self.max_learners,
            self.fit_intercept,
            extra_price(n_rows) / parts if is_special and self.is_penalised else 0.0,
            None if costs is None else costs * (unit / parts),
            self.wishes.max_features,
            self.n_bits if parts == 1 else None,  # of more classes the last weights are others
        )

    def rows_per_example(self, examples: Examples) -> int:
        """Return how many rows the problem has for each: one, or one per class of many.

        Internal prices are those of the user divided by it, since weights of rows sum to one.
        """
        return 1 if examples.n_classes == 2 else examples.n_classes

    def finished(
        self,
        ensembles: Sequence[Ensemble],
        examples: Examples,
        oracle: Oracle,
        n_real: int = 0,
        is_quick: bool = False,
    ) -> list[Ensemble]:
        """Return the ensembles of a search with their last weights, and with names.

        The first ``n_real`` of them have real numbers for weights, whatever ``n_bits``, and the
        search for integers can be a quick one.
        """
        loss, sided = self.loss.name, Sides(examples)
        if isinstance(oracle, ClassOracle):
            n_rows, mode, loss = examples.n_effective, self.multiclass, MULTINOMIAL
            if self.wishes.costs is not None or self.wishes.max_features is not None:
                mode = "per_class" if mode == "joint" else mode  # which features is settled
            nu, extra = l1_price(self.l1_penalty, n_rows), extra_price(n_rows)
            weigh = ClassWeights(mode, oracle, examples.weight, nu, self.fit_intercept, extra)
            ensembles = weigh(ensembles)
            if self.n_bits is not None:
                last = [weigh.in_integers(e, self.n_bits, is_quick) for e in ensembles[n_real:]]
                ensembles = [*ensembles[:n_real], *last]
        return [sided(e).with_names(examples.classes, examples.features, loss) for e in ensembles]

    def engine(
        self,
        examples: Examples,
        rng: np.random.Generator,
        oracle: Oracle | None = None,
        searches: bool = True,
    ) -> Engine:
        """Return an engine that has not begun; one that searches may look at some rows first."""
        oracle = self.oracle(examples) if oracle is None else oracle
        terms, tol = self.terms(examples, oracle), self.tolerance(examples)
        if not searches or not isinstance(oracle, SampledOracle):
            return Engine(oracle, terms, self.solver, tol, rng)
        drawn = drawn_rows(examples.y, examples.weight, oracle.n_features)
        if drawn is None:
            return Engine(oracle, terms, self.solver, tol, rng)
        parts = self.rows_per_example(examples)
        few = replace(terms, sample_weight=np.repeat(drawn.weight / parts, parts))

        def draft() -> Engine:
            return Engine(oracle.sampled(drawn.rows), few, self.solver, tol, rng)

        if isinstance(oracle, ClusterOracle) and len(examples) > FAR_ROWS and self.n_bits is None:
            engine = draft()
            if not engine.session.adds_to_search:  # a solver would need all rows
                engine.far = lambda: RemoteSupport(oracle, terms)
                return engine
        return Engine(oracle, terms, self.solver, tol, rng, draft)

    def tolerance(self, examples: Examples) -> float:
        """Return eps of eq. (9) for edges that are means over the rows of the problem."""
        if not isinstance(self.tol, str):
            return self.tol
        return tolerance(EPSILON, examples.n_effective * self.rows_per_example(examples))

    def after(self, stop: BaseException) -> Settings:
        """Return what is left to do with what was found before a stop.

        Without a cluster only columns that the driver has are there: no exchange at the end.
        """
        is_lost = isinstance(stop, ClusterError) and self.multiclass == "joint"
        return self.changed(multiclass="per_class") if is_lost else self

    def changed(self, **changes: Any) -> Settings:
        """Return the same with some values replaced."""
        return replace(self, **changes)


class Sides:
    """Sends what is missing at prediction only to the side of more weight of the training data."""

    def __init__(self, examples: Examples):
        self.examples = examples
        self._known: dict[Learner, Learner] = {}

    def __call__(self, ensemble: Ensemble) -> Ensemble:
        """Return the ensemble with a side for what is missing in every stump."""
        return replace(ensemble, learners=tuple(self._sided(h) for h in ensemble.learners))

    def _sided(self, learner: Learner) -> Learner:
        if isinstance(learner, Both):
            return replace(
                learner, first=self._sided(learner.first), second=self._sided(learner.second)
            )
        if not isinstance(learner, Stump) or self.examples.features[learner.feature].has_missing:
            return learner
        if learner not in self._known:
            above = self.examples.weight_above(learner.feature, learner.threshold)  # of 1
            is_above = bool(above > 0.5 + ROUNDING)
            self._known[learner] = replace(learner, missing_above=is_above)
        return self._known[learner]


def check_tol(value: Any) -> None:
    """Raise unless the value is "paper" or a number."""
    if isinstance(value, str) and value == "paper":
        return
    try:
        check_number("tol", value)
    except ValueError:
        raise ValueError(
            f"tol must be 'paper' or a finite number >= 0, got {short(value)}"
        ) from None


def check_settings(
    loss: str | Loss,
    dictionary: str | Dictionary,
    solver: str | MasterSolver,
    l1_penalty: float | str,
    cardinality_penalty: float | str,
    max_learners: int | None,
    tol: float | str,
    fit_intercept: bool,
    n_jobs: int | None,
    n_bits: int | None = None,
    multiclass: str = MODES[0],
    wishes: FeatureWishes = NO_WISHES,
) -> Settings:
    """Return the settings, or raise one sentence that names the argument that is wrong."""
    check_cardinality_penalty(cardinality_penalty)
    check_l1_penalty(l1_penalty)
    check_tol(tol)
    check_flag("fit_intercept", fit_intercept)
    check_jobs(n_jobs)
    check_mode(multiclass)
    check_integer_bits(n_bits)
    if max_learners is not None:
        check_integer("max_learners", max_learners, 1)
    return Settings(
        losses.get(loss),
        dictionaries.get(dictionary),
        solvers.get(solver) if n_bits is None else solvers.get(solver, n_bits),
        l1_penalty,
        cardinality_penalty,
        max_learners,
        tol if isinstance(tol, str) else float(tol),
        bool(fit_intercept),
        n_jobs,
        multiclass,
        wishes,
        n_bits,
    )


def warn_if_separated(ensemble: Ensemble, examples: Examples, loss: Loss, nu: float) -> None:
    """Say so if nothing but a tiny price keeps weights from growing for ever."""
    if nu * examples.n_effective > NO_PRICE or loss.log_odds is None:
        return
    if margins(examples.scores(ensemble), examples.y).min() > 0:
        warn(
            f"the ensemble separates the classes and l1_penalty={nu:g} hardly limits "
            f"its weights (the largest is {ensemble.strengths.max():.3g}): probabilities "
            "are close to 0 and 1 whatever the data say; use l1_penalty='auto'",
            ConvergenceWarning,
        )


def generator(random_state: Any) -> np.random.Generator:
    """Return the generator of a seed; None is 0, a RandomState gives a seed of its own."""
    if random_state is None:
        return np.random.default_rng(0)
    if isinstance(random_state, Integral):
        if random_state < 0:
            raise ValueError(f"random_state must be >= 0, got {random_state!r}")
        return np.random.default_rng(int(random_state))
    state = check_random_state(random_state)
    return np.random.default_rng(state.randint(np.iinfo(np.int32).max))
