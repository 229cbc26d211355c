"""TotalQBoostClassifier: Algorithm 1 with the manners of scikit-learn."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from totalqboost import dictionaries, losses, solvers
from totalqboost.boosting import BoostingInterrupted, BoostingResult, Round, boost
from totalqboost.dictionaries.base import Dictionary
from totalqboost.ensemble import Ensemble
from totalqboost.learners import Stump
from totalqboost.losses import Loss
from totalqboost.solvers.tabu import check_depth
from totalqboost.solving import MasterSolver, SolverError

__all__ = ["TotalQBoostClassifier"]


class TotalQBoostClassifier(ClassifierMixin, BaseEstimator):
    """The smallest boosted ensemble that does the job: boosting with a price per learner.

    Minimises mean loss + l1_penalty * sum of weights + cardinality_penalty * number of weak
    classifiers, by column generation (Algorithm 1 of Denchev et al.).

    Parameters
    ----------
    cardinality_penalty : float, default=0.005
        The paper's lambda: one more weak classifier must lower the mean loss by this much
        to pay for itself. 0 gives ordinary l1-regularised boosting.
    l1_penalty : float, default=1e-6
        The paper's nu. Small and positive, it keeps weights finite on separable data.
    loss : str or Loss, default="exponential"
        "exponential", "logistic", "squared", "smoothed_hinge" or an object like them.
    dictionary : str or Dictionary, default="stumps"
        Where weak classifiers come from: "stumps", "columns" (X holds their answers, -1 and
        +1), or an object, e.g. ``Stumps(max_bins=255)``.
    solver : str or MasterSolver, default="local"
        What solves the combinatorial problem of each round: "local", "tabu", an object with
        ``solve(problem, start, rng)``, or a sampler of D-Wave's Ocean: any ``dimod.Sampler``,
        a sampler of constrained or nonlinear models, or a function or class that returns one
        (which, unlike a live connection, can be cloned and pickled).
    max_rounds : int, default=100
        T: at most this many columns are generated, so no ensemble is larger.
    tol : float, default=5e-4
        Column generation ends when no dual constraint is violated by more than this.
    hot_start : int, default=0
        Generate this many columns without the penalty first.
    max_learners : int, optional
        Hard limit on the number of weak classifiers.
    patience : int or None, default=10
        Stop after this many rounds in which the kept set did not change.
    n_exchanges : int, default=20
        After Algorithm 1, at most this many sweeps that replace kept weak classifiers by
        better ones of the whole dictionary. 0 is the paper's algorithm.
    fit_intercept : bool, default=True
        Give the ensemble an intercept that costs nothing. False is the paper's form: the
        constant classifier counts like any other.
    certify : bool, default=False
        After the fit, bound how much better any choice and weighting of the generated columns
        could be: ``solution_.bound`` and ``solution_.gap``. Without it the bound is that of
        the l1 problem, which knows nothing of the price of weak classifiers. The columns are
        those that boosting generated; see ``BranchAndPrice`` for the whole dictionary.
    n_bits : int or "auto", default=6
        Depth of the fixed-point weights of discrete solvers. A sampler of binary quadratic
        models gets one bit per column; for more, see ``solvers.BQMSolver``. A solver that is
        given as an object has its own.
    random_state : int, RandomState or None, default=None
        Seed of the solver; None stands for 0, so that fits are repeatable.
    n_jobs : int, optional
        Threads for the search over features in large data; -1 is all. The result does not
        depend on it.
    verbose : int, default=0
        1 prints a line per round.

    Attributes
    ----------
    ensemble_ : Ensemble
        The model; ``print`` it, or ``save`` it as JSON.
    n_learners_ : int
        Number of weak classifiers; the intercept is not counted.
    trace_ : tuple of Round
        What happened in each round.
    solution_ : Solution
        Weights over all generated columns with objective, bound and gap. ``status`` is that
        of the fit, or what a solver that is asked once more at the end said then.
    status_ : str
        Why boosting ended: "converged", "max_rounds", "patience", "interrupted" or
        "solver failed".
    classes_, n_features_in_, feature_names_in_, feature_importances_
        As everywhere in scikit-learn.

    Examples
    --------
    >>> from totalqboost import TotalQBoostClassifier
    >>> from totalqboost.datasets import make_twonorm
    >>> X, y = make_twonorm(1000, seed=0)
    >>> clf = TotalQBoostClassifier(max_learners=5).fit(X, y)
    >>> clf.n_learners_
    5
    """

    def __init__(
        self,
        cardinality_penalty: float = 0.005,
        *,
        l1_penalty: float = 1e-6,
        loss: str | Loss = "exponential",
        dictionary: str | Dictionary = "stumps",
        solver: str | MasterSolver = "local",
        max_rounds: int = 100,
        tol: float = 5e-4,
        hot_start: int = 0,
        max_learners: int | None = None,
        patience: int | None = 10,
        n_exchanges: int = 20,
        fit_intercept: bool = True,
        certify: bool = False,
        n_bits: int | str = 6,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ):
        self.cardinality_penalty = cardinality_penalty
        self.l1_penalty = l1_penalty
        self.loss = loss
        self.dictionary = dictionary
        self.solver = solver
        self.max_rounds = max_rounds
        self.tol = tol
        self.hot_start = hot_start
        self.max_learners = max_learners
        self.patience = patience
        self.n_exchanges = n_exchanges
        self.fit_intercept = fit_intercept
        self.certify = certify
        self.n_bits = n_bits
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        on_round: Callable[[int, Round], None] | None = None,
        on_sweep: Callable[[int, int, float], None] | None = None,
    ) -> TotalQBoostClassifier:
        """Fit the ensemble.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Numbers without NaN or infinity.
        y : array-like of shape (n_samples,)
            Two classes; labels of any type that scikit-learn takes for classes.
        sample_weight : array-like of shape (n_samples,), optional
            Non-negative weights; rows of weight zero are left out.
        on_round : callable, optional
            Called with (round number, Round) after each round, e.g. for a progress bar.
        on_sweep : callable, optional
            Called with (sweep number, exchanges made, objective) after each sweep of
            exchanges.

        Returns
        -------
        self
            Ctrl-C leaves it fitted with the rounds done so far, then raises
            KeyboardInterrupt; so does a solver that fails after the first round, with
            SolverError.
        """
        before = self.__dict__.copy()
        try:
            return self._fit(X, y, sample_weight, on_round, on_sweep)
        except Exception as error:
            if isinstance(error, SolverError) and error.result is not None:
                raise  # the rounds done so far are kept
            self.__dict__ = before  # a refused fit leaves the model of an earlier one as it was
            raise

    def _fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        on_round: Callable[[int, Round], None] | None,
        on_sweep: Callable[[int, int, float], None] | None,
    ) -> TotalQBoostClassifier:
        self._check_parameters()
        loss, solver = losses.get(self.loss), solvers.get(self.solver, self.n_bits)
        dictionary = dictionaries.get(self.dictionary)
        X, y = validate_data(self, X, y, dtype=[np.float64, np.float32], ensure_min_samples=2)
        signs = self._signs(y)
        weight = None
        if sample_weight is not None:
            weight = _check_sample_weight(sample_weight, X, ensure_non_negative=True)
            X, signs, weight = self._positive_rows(X, signs, weight)
        try:
            result = boost(
                X,
                signs,
                dictionary,
                solver,
                loss,
                n_jobs=self.n_jobs,
                nu=float(self.l1_penalty),
                lam=float(self.cardinality_penalty),
                max_rounds=self.max_rounds,
                tol=self.tol,
                hot_start=self.hot_start,
                patience=self.patience,
                max_learners=self.max_learners,
                n_exchanges=self.n_exchanges,
                free_intercept=self.fit_intercept,
                sample_weight=weight,
                rng=self._generator(),
                on_round=_both(on_round, _print_round if self.verbose else None),
                on_sweep=_both(on_sweep, _print_sweep if self.verbose else None),
            )
        except BoostingInterrupted as interruption:
            self._keep(interruption.result, loss)
            raise
        except SolverError as error:
            if error.result is not None and not error.result.trace:
                error.result = None  # not one round is nothing to keep
            if error.result is not None:
                self._keep(error.result, loss)
            raise
        self._keep(result, loss)
        return self

    # -- prediction --------------------------------------------------------------------

    def decision_function(self, X: Any) -> np.ndarray:
        """Return the score f(x) of each row; positive means ``classes_[1]``."""
        X = self._checked(X)
        return self.ensemble_.decision_function(X)

    def predict(self, X: Any) -> np.ndarray:
        """Return the label of each row."""
        scores = self.decision_function(X)  # checks that there is a fitted model
        return self.classes_[(scores > 0).astype(int)]

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probabilities of the two classes, by the link of the loss."""
        scores = self.decision_function(X)
        positive = self.loss_.link(scores)
        return np.column_stack([1.0 - positive, positive])

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Return the logarithms of ``predict_proba``."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def staged_decision_function(self, X: Any) -> Iterator[np.ndarray]:
        """Yield the scores after each round of boosting."""
        X = self._checked(X)
        for ensemble in self.result_.staged():
            yield ensemble.decision_function(X)

    def staged_predict(self, X: Any) -> Iterator[np.ndarray]:
        """Yield the labels after each round of boosting."""
        for scores in self.staged_decision_function(X):
            yield self.classes_[(scores > 0).astype(int)]

    @property
    def feature_importances_(self) -> np.ndarray:
        """Share of each feature in the weights of the ensemble; sums to one."""
        check_is_fitted(self, "ensemble_")
        importance = np.zeros(self.n_features_in_)
        for learner, weight in zip(self.ensemble_.learners, self.ensemble_.weights, strict=True):
            if isinstance(learner, Stump):
                importance[learner.feature] += weight
        total = importance.sum()
        return importance / total if total > 0 else importance

    # -- parts of fit ------------------------------------------------------------------

    def _check_parameters(self) -> None:
        for name in ("cardinality_penalty", "l1_penalty", "tol"):
            value = getattr(self, name)
            if (
                isinstance(value, bool)
                or not isinstance(value, Real)
                or not 0 <= float(value) < np.inf
            ):
                raise ValueError(f"{name} must be a finite number >= 0, got {value!r}")
        check_depth(self.n_bits)
        limits = {"max_rounds": 1, "hot_start": 0, "n_exchanges": 0}
        for name in ("max_learners", "patience"):
            if getattr(self, name) is not None:
                limits[name] = 1
        if not isinstance(self.fit_intercept, bool | np.bool_):
            raise ValueError(f"fit_intercept must be True or False, got {self.fit_intercept!r}")
        if self.n_jobs is not None and not isinstance(self.n_jobs, Integral):
            raise ValueError(f"n_jobs must be an integer or None, got {self.n_jobs!r}")
        for name, least in limits.items():
            value = getattr(self, name)
            if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
                raise ValueError(f"{name} must be an integer >= {least}, got {value!r}")

    def _signs(self, y: np.ndarray) -> np.ndarray:
        """Set classes_ and return the labels as -1 and +1."""
        check_classification_targets(y)
        self.classes_ = np.unique(y)
        if len(self.classes_) > 2:
            raise ValueError(
                "Only binary classification is supported. The type of the target is "
                f"{type_of_target(y, input_name='y')}, with {len(self.classes_)} classes: "
                f"{list(self.classes_[:5])}"
            )
        if len(self.classes_) < 2:
            raise ValueError(
                "y must have two classes, got one class only: "
                f"{self.classes_[0]!r}. Classifier can't train when only one class is present."
            )
        return np.where(y == self.classes_[1], np.int8(1), np.int8(-1))

    def _positive_rows(
        self, X: np.ndarray, signs: np.ndarray, weight: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Leave out rows of weight zero: they take no part in the risk."""
        used = weight > 0
        if not used.all():
            X, signs, weight = X[used], signs[used], weight[used]
        if len(np.unique(signs)) < 2:
            raise ValueError(
                "y must have two classes among the rows of positive sample_weight, got "
                f"{len(np.unique(signs))} class"
            )
        return X, signs, weight

    def _generator(self) -> np.random.Generator:
        if self.random_state is None:
            return np.random.default_rng(0)
        if isinstance(self.random_state, Integral):
            if self.random_state < 0:
                raise ValueError(f"random_state must be >= 0, got {self.random_state!r}")
            return np.random.default_rng(int(self.random_state))
        state = check_random_state(self.random_state)
        return np.random.default_rng(state.randint(np.iinfo(np.int32).max))

    def _keep(self, result: BoostingResult, loss: Loss) -> None:
        names = getattr(self, "feature_names_in_", None)
        if names is None:
            names = [f"x{j}" for j in range(self.n_features_in_)]
        self.loss_ = loss
        self.result_ = replace(result, problem=None)  # its columns are as large as the data
        self.ensemble_: Ensemble = result.ensemble.with_names(
            self.classes_, [str(name) for name in names], loss.name
        )
        self.n_learners_ = self.ensemble_.n_learners
        self.trace_ = result.trace
        self.solution_ = result.solution
        if self.certify and result.problem is not None:
            bound = solvers.certify(result.problem, result.solution.w)
            self.solution_ = replace(result.solution, bound=max(bound, result.solution.bound))
        self.status_ = result.status
        self.n_iter_ = len(result.trace)

    def _checked(self, X: Any) -> np.ndarray:
        check_is_fitted(self, "ensemble_")
        return validate_data(self, X, reset=False, dtype=[np.float64, np.float32])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


def _print_round(number: int, record: Round) -> None:
    print(
        f"[TotalQBoost] round {number:3d}  edge {record.edge:.4f}  "
        f"objective {record.objective:.6f}  risk {record.risk:.6f}  "
        f"learners {record.cardinality}  gap {record.duality_gap:.4f}  {record.seconds:.2f} s",
        flush=True,
    )


def _print_sweep(number: int, n_exchanged: int, objective: float) -> None:
    print(
        f"[TotalQBoost] exchange sweep {number:2d}  exchanged {n_exchanged}  "
        f"objective {objective:.6f}",
        flush=True,
    )


def _both(first: Callable[..., None] | None, second: Callable[..., None] | None) -> Any:
    """Return a callback that calls both, or the one that there is."""
    if first is None or second is None:
        return first or second

    def call(*values: Any) -> None:
        first(*values)
        second(*values)

    return call
