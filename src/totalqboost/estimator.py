"""TotalQBoostClassifier: Algorithm 1 with the manners of scikit-learn."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from totalqboost import losses, solvers
from totalqboost.boosting import (
    BoostingResult,
    Engine,
    Event,
    FoldDone,
    Progress,
    Rounds,
    Searched,
    boost,
    search,
)
from totalqboost.classifier import EnsembleClassifier
from totalqboost.cluster.training import training_examples
from totalqboost.dictionaries.base import Dictionary
from totalqboost.ensemble import Ensemble
from totalqboost.examples import Examples
from totalqboost.losses import Loss
from totalqboost.multiclass import winners
from totalqboost.paper import paper_form
from totalqboost.parameters import check_flag, check_integer
from totalqboost.settings import Settings, check_settings, generator, warn_if_separated
from totalqboost.solving import Interrupted, MasterSolver, Solution, SolverError, Status
from totalqboost.wishes import check_wishes

__all__ = ["TotalQBoostClassifier", "both", "print_event"]


class TotalQBoostClassifier(EnsembleClassifier):
    """The smallest boosted ensemble that does the job: boosting with a price per learner.

    Minimises mean loss + l1_penalty * sum of weights + cardinality_penalty * number of weak
    classifiers, by column generation (Algorithm 1 of Denchev et al.).

    Parameters
    ----------
    cardinality_penalty : float or str, default="auto"
        The paper's lambda: one more weak classifier must lower the mean loss by this much
        to pay for itself. 0 gives ordinary l1-regularised boosting. "auto" is 0.5/n, n the
        number of rows (with weights c the effective number, (sum c)^2 / sum c^2; fewer than 40
        count as 40); "aic" is 1/n, "bic" ln(n)/(2n), and "ric" ln(M)/n, the risk inflation
        criterion, M the number of weak classifiers in the dictionary.
    l1_penalty : float or "auto", default="auto"
        The paper's nu, the price of weight. "auto" is 4/n. It keeps weights moderate and
        probabilities honest; 0 or nearly 0 leaves both to overfit, and below 1e-10 rounding
        leaves next to no lower bound. An intercept pays nothing.
    loss : str or Loss, default="logistic"
        "exponential", "logistic", "squared", "smoothed_hinge" or an object like them. "auto"
        prices are meant for the logistic loss; the paper has the exponential one and
        ``l1_penalty=1e-6``.
    dictionary : str or Dictionary, default="stumps"
        Where weak classifiers come from: "stumps", "pairs" (stumps, and conjunctions of two
        conditions, for features that interact), "columns" (X holds their answers, -1 and +1),
        or an object, e.g. ``Stumps(max_bins=255)`` or one of your own (docs/extend.md).
    solver : str or MasterSolver, default="local"
        What solves the combinatorial problem of each round: "local", "tabu", "exact", an object
        with ``solve(problem, start, rng)`` (see ``MasterSolver``), or a sampler of D-Wave's
        Ocean: any ``dimod.Sampler``, a sampler of constrained or nonlinear models, or a function
        or class that returns one (which, unlike a live connection, can be cloned and pickled).
    max_rounds : int, default=100
        T: at most this many rounds, so no ensemble is larger.
    tol : float or "paper", default=5e-4
        Column generation ends when no weak classifier that it has not seen yet violates its dual
        constraint by more than this (eq. 9). The unit is that of the mean loss per unit of weight:
        an edge is a mean over rows, from -1 to 1 where all rows weigh the same. In the paper loss
        and edges are sums; "paper" is its 5e-4 in that unit, 5e-4/n here.
    max_learners : int, optional
        A limit on the number of weak classifiers, not a wish: the price may stop earlier.
        With ``cardinality_penalty=0`` the best ensemble of that size is returned (a smaller
        one only if no more classifiers help); ``frontier(X, y)[k]`` gives exactly k.
    exchange : bool, default=True
        Search the whole dictionary: ensembles of every size trade their weak classifiers for
        better ones until nothing improves, the one that is best at the price is kept, and a
        ``solver`` other than "local" has the last word on the columns generated on the way.
        The answer is never worse than column generation without a price, stopped at the same
        size. False is the paper's Algorithm 1, where the solver decides in every round.
    plain_rounds : int, default=0
        The paper's T', for ``exchange=False``: this many columns are generated without the
        price first.
    patience : int or None, default=10
        For ``exchange=False``: stop after this many rounds in which the kept set did not
        change.
    exhaust : bool, default=False
        For ``exchange=False`` with a price or a limit: go on until the dictionary has no weak
        classifier that was not seen (or to ``max_rounds``), as the paper does, instead of until
        ``tol`` says so. ``patience`` may end the rounds before; the paper has none (None). It
        costs rounds; docs/algorithm.md shows what it gains. With more than two classes each cut
        is seen once, with the votes that were best then.
    fit_intercept : bool, default=True
        Give the ensemble an intercept that costs nothing. False is the paper's form: the
        constant classifier counts like any other.
    categorical_features : "from_dtype", array-like or None, default="from_dtype"
        Which columns hold categories. "from_dtype": those of text and of a categorical type in a
        data frame. An array has one type for all columns: those of text do, unless all of it
        reads as numbers. Else their positions, their names, or a mask; None is none.
    feature_costs : float, array-like or dict, optional
        What it costs to look at a feature, however many weak classifiers do, in units of
        ``cardinality_penalty`` (of its "auto" if that is 0): a sensor is paid once. A number for
        all, one per column, or some by name.
    max_features : int, optional
        A limit on the number of features that the ensemble looks at.
    monotonic_cst : array-like or dict, optional
        1 where the score may only rise with a feature, -1 where it may only fall, 0 for the
        others; as in scikit-learn's HistGradientBoostingClassifier.
    class_weight : dict or "balanced", optional
        Factors of the sample weights by class: ``{label: weight}``, or "balanced", which gives
        all classes the same weight.
    certify : bool, default=False
        After the fit, bound how much better any choice and weighting of the generated columns
        could be: ``solution_.bound`` and ``solution_.gap``. Without it the bound is that of
        the l1 problem, which knows nothing of the price of weak classifiers. The columns are
        those that boosting generated; see ``BranchAndPrice`` for the whole dictionary.
    multiclass : {"joint", "per_class", "shared"}, default="joint"
        For more than two classes, which share weak classifiers. The search gives each one weight
        and for each class a vote, +1 or -1: objective, bound and solvers are those of this
        problem of two classes, whose rows are pairs of an example and a class. "shared" keeps the
        votes, which take few bytes. "per_class" then fits a weight for each class by the
        multinomial logistic loss, which predicts better. "joint" goes on from there: weak
        classifiers are exchanged until none lowers the loss with weights per class (not if
        features have costs or a limit; then it is "per_class").
    n_bits : int or None, default=None
        Train integers, for devices and scorecards: weights are signed integers of this many bits
        (8, 6, 4; from 2 to 12), at most 2^(n_bits - 1) - 1 in size, times one scale, and the
        intercept is an integer of 16 bits times the same scale. They are found by a discrete
        search for the least objective, not by rounding; see ``ensemble_.points``. None gives
        real numbers, which ``trace_`` has in any case. It is also the depth of the fixed-point
        weights in which a discrete ``solver`` that is given by name searches, 6 with None; one
        that is an object has its own.
    random_state : int, RandomState or None, default=None
        Seed of the solver. None is the same as 0: fits are repeatable unless a RandomState
        is given.
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
    cardinality_penalty_, l1_penalty_ : float
        The prices that were used, in numbers.
    trace_ : tuple of Round
        What happened in each round; with ``exchange``, the best ensemble of each size, as the
        search found it (beyond 100,000 rows: on those it looked at).
    solution_ : Solution
        Weights over all generated columns with objective, bound and gap. ``status`` is that
        of the fit, or what a solver that is asked once more at the end said then.
    integers_ : Solution or None
        With ``n_bits`` and ``certify`` (or ``solver="exact"``), for two classes: what the exact
        solver says about the integers. ``status`` is "optimal" if it proved that no others are
        better for the same weak classifiers and the same scale.
    status_ : Status
        Why boosting ended: "converged", "max_rounds", "patience", "interrupted" or
        "solver failed".
    n_samples_fit_ : int
        Number of rows of training.
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
        cardinality_penalty: float | str = "auto",
        *,
        l1_penalty: float | str = "auto",
        loss: str | Loss = "logistic",
        dictionary: str | Dictionary = "stumps",
        solver: str | MasterSolver = "local",
        max_rounds: int = 100,
        tol: float | str = 5e-4,
        max_learners: int | None = None,
        exchange: bool = True,
        plain_rounds: int = 0,
        patience: int | None = 10,
        exhaust: bool = False,
        fit_intercept: bool = True,
        categorical_features: Any = "from_dtype",
        feature_costs: Any = None,
        max_features: int | None = None,
        monotonic_cst: Any = None,
        class_weight: Any = None,
        certify: bool = False,
        multiclass: str = "joint",
        n_bits: int | None = None,
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
        self.max_learners = max_learners
        self.exchange = exchange
        self.plain_rounds = plain_rounds
        self.patience = patience
        self.exhaust = exhaust
        self.fit_intercept = fit_intercept
        self.categorical_features = categorical_features
        self.feature_costs = feature_costs
        self.max_features = max_features
        self.monotonic_cst = monotonic_cst
        self.class_weight = class_weight
        self.certify = certify
        self.multiclass = multiclass
        self.n_bits = n_bits
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    @classmethod
    def paper_form(cls, cardinality_penalty: float | str, **changes: Any) -> TotalQBoostClassifier:
        """Return the classifier of the paper: Algorithm 1 with the settings of its experiments.

        Exponential loss, a tiny l1 price, no intercept (a constant counts like any other weak
        classifier), no exchange; line 10 by multistart tabu search over weights of 6 bits; at most
        100 rounds, the paper's tolerance (``tol="paper"``), and with a price no end before the
        dictionary has nothing new (``exhaust=True``).

        Parameters
        ----------
        cardinality_penalty : float or str
            lambda; the paper tries many. Divide one of the paper by the number of rows: its risk
            is a sum over rows, here it is a mean.
        **changes
            Other arguments of the class, for what is to differ: ``solver="local"`` is faster.
            The depth of the search's weights belongs to the solver, as in
            ``solver=TabuSearch(n_bits=4, moves="bits", restart="mst2", discrete=True)``;
            ``n_bits`` is that of the final weights, integers which the paper does not have.

        Examples
        --------
        >>> from totalqboost import TotalQBoostClassifier, datasets
        >>> X, y = datasets.load("flare solar")
        >>> clf = TotalQBoostClassifier.paper_form(0.02, solver="local").fit(X, y)
        >>> clf.loss, clf.n_learners_
        ('exponential', 3)
        """
        return cls(cardinality_penalty, **{**paper_form(), **changes})

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        on_event: Event | None = None,
    ) -> TotalQBoostClassifier:
        """Fit the ensemble.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features)
            Numbers without infinity, text and categories; NaN and None are missing values. Of an
            array or a data frame of Dask the rows stay on the workers of the open client; without
            one, in partitions that this process reads, a few at a time.
        y : array-like of shape (n_samples,)
            Two classes or more; labels of any type that scikit-learn accepts for classes.
        sample_weight : array-like of shape (n_samples,), optional
            Non-negative weights; rows of weight zero are left out. Whole numbers are counts: a
            row of weight 3 is the same as three rows. Of other weights only the proportions
            matter.
        on_event : callable, optional
            Called with a :class:`totalqboost.boosting.Round` after each round, or with a
            :class:`totalqboost.boosting.Searched` as the search goes on, e.g. for a progress
            bar.

        Returns
        -------
        self
            Ctrl-C leaves it fitted with what was found so far, then raises
            :class:`totalqboost.Interrupted`, a KeyboardInterrupt; so does a solver that fails
            after the first round, with :class:`totalqboost.SolverError`.
        """
        with self._all_or_nothing():
            return self._fit(X, y, sample_weight, on_event)

    def _fit(
        self, X: Any, y: Any, sample_weight: Any, on_event: Event | None
    ) -> TotalQBoostClassifier:
        settings = self._check_parameters()
        with training_examples(
            X,
            y,
            sample_weight,
            class_weight=self.class_weight,
            categorical_features=self.categorical_features,
            estimator=self,
            dictionaries=[settings.dictionary],
        ) as examples:
            self.fit_examples(examples, on_event)
            warn_if_separated(self.ensemble_, examples, settings.loss, self.l1_penalty_)
        return self

    def fit_examples(self, examples: Examples, on_event: Event | None = None) -> None:
        """Fit to rows that have been checked; their weights are the ones to use."""
        settings = self._check_parameters()
        examples = settings.constrained(examples)
        if self.exchange and settings.is_penalised:  # no more learners than rounds
            limit = self.max_rounds if self.max_learners is None else self.max_learners
            settings = settings.changed(max_learners=min(limit, self.max_rounds))
        # A certificate is about the columns that were generated, on all rows.
        searches = self.exchange and settings.max_learners is not None and not self.certify
        engine = settings.engine(examples, generator(self.random_state), searches=searches)
        try:
            result = self._run(engine, both(on_event, print_event if self.verbose else None))
        except (Interrupted, SolverError) as stop:
            if stop.result is not None and not stop.result.trace:
                stop.result = None  # not one round is nothing to keep
            if stop.result is not None:
                self._keep(stop.result, examples, engine, settings.after(stop))
            raise
        try:
            self._keep(result, examples, engine, settings)
        except SolverError as stop:  # rows were lost between the search and the last weights
            stop.result = replace(result, status=Status.SOLVER_FAILED)
            self._keep(stop.result, examples, engine, settings.after(stop))
            raise

    def _run(self, engine: Engine, on_event: Event | None) -> BoostingResult:
        limit = engine.terms.max_learners
        if self.exchange and limit is not None:  # else Algorithm 1, on all rows
            return search(engine, limit, on_event)
        rounds = Rounds(self.max_rounds, self.plain_rounds, self.patience, self.exhaust)
        return boost(engine, rounds, on_event)

    # -- stages ------------------------------------------------------------------------

    def staged_decision_function(self, X: Any) -> Iterator[np.ndarray]:
        """Yield the scores after each round of boosting."""
        X = self._checked(X)
        for ensemble in self.result_.staged():
            yield ensemble.scores(X)

    def staged_predict(self, X: Any) -> Iterator[np.ndarray]:
        """Yield the labels after each round of boosting."""
        for scores in self.staged_decision_function(X):
            yield self.classes_[winners(scores)]

    # -- parts of fit ------------------------------------------------------------------

    def _check_parameters(self) -> Settings:
        for name in ("exchange", "exhaust", "certify"):
            check_flag(name, getattr(self, name))
        check_integer("max_rounds", self.max_rounds, 1)
        check_integer("plain_rounds", self.plain_rounds, 0)
        if self.patience is not None:
            check_integer("patience", self.patience, 1)
        return check_settings(
            self.loss,
            self.dictionary,
            self.solver,
            self.l1_penalty,
            self.cardinality_penalty,
            self.max_learners,
            self.tol,
            self.fit_intercept,
            self.n_jobs,
            self.n_bits,
            self.multiclass,
            check_wishes(self.feature_costs, self.max_features, self.monotonic_cst),
        )

    def _examined(self, result: BoostingResult, settings: Settings) -> Solution | None:
        """Return the exact solver's word on integers, if it was to be asked."""
        problem, scale, exact = result.problem, result.ensemble.scale, settings.solver
        is_exact = isinstance(exact, solvers.BranchAndBound)
        is_known = problem is not None and problem.loss.name in losses.names()
        is_whole = result.status not in (Status.INTERRUPTED, Status.SOLVER_FAILED)
        if not (scale and settings.n_bits and is_known and is_whole and (is_exact or self.certify)):
            return None
        assert problem is not None
        return solvers.certify_integers(
            problem,
            result.solution.w,
            scale,
            settings.n_bits,
            solver=exact if isinstance(exact, solvers.BranchAndBound) else None,
        )

    def _keep(
        self, result: BoostingResult, examples: Examples, engine: Engine, settings: Settings
    ) -> None:
        solution, terms = result.solution, engine.terms
        parts = settings.rows_per_example(examples)
        if self.certify and result.problem is not None:
            bound = solvers.certify(result.problem, solution.w)
            solution = replace(solution, bound=max(bound, solution.bound))
        self.integers_ = self._examined(result, settings)
        if self.integers_ is not None and self.integers_.objective < solution.objective:
            w, objective = self.integers_.w, self.integers_.objective
            solution = replace(solution, w=w, objective=objective)
            result = replace(result, ensemble=_reweighed(result, w), solution=solution)
        self.classes_, self.loss_ = examples.classes, terms.loss
        stages = [r.ensemble for r in result.trace] if parts > 1 else []
        *stages, self.ensemble_ = settings.finished(
            [*stages, result.ensemble], examples, engine.oracle, n_real=len(stages)
        )
        if stages:
            pairs = zip(result.trace, stages, strict=True)
            result = replace(result, trace=tuple(replace(r, ensemble=e) for r, e in pairs))
        # Its columns are as large as the data; only rounds hold on to them, for their bounds.
        self.result_ = replace(result, problem=None)
        self.n_learners_, self.n_samples_fit_ = self.ensemble_.n_learners, len(examples)
        self.cardinality_penalty_, self.l1_penalty_ = parts * terms.lam, parts * terms.nu
        self.trace_, self.solution_ = result.trace, solution
        self.status_, self.n_iter_ = result.status, len(result.trace)
        integers = self.integers_
        self.ensemble_ = self.ensemble_.with_training(
            examples.X.shape,
            solution.objective,
            solution.bound,
            l1_penalty=self.l1_penalty_,
            cardinality_penalty=self.cardinality_penalty_,
            max_learners=terms.max_learners,
            is_best_of_integers=integers is not None and integers.status is Status.OPTIMAL,
        )


def _reweighed(result: BoostingResult, w: np.ndarray) -> Ensemble:
    """Return the ensemble of other integers, of the same scale."""
    assert result.problem is not None
    ensemble = Ensemble.from_columns(result.learners, w, result.problem.cost == 0)
    return replace(ensemble, scale=result.ensemble.scale)


def print_event(event: Progress) -> None:
    """Print a line about what has happened."""
    if isinstance(event, FoldDone):
        print(f"[TotalQBoost] fold {event.n_done} of {event.n_folds} done", flush=True)
        return
    if isinstance(event, Searched):
        print(
            f"[TotalQBoost] search up to {event.max_learners} learners  "
            f"at {event.n_learners:3d}  objective {event.objective:.6f}",
            flush=True,
        )
        return
    print(
        f"[TotalQBoost] round {event.number:3d}  edge {event.edge:.4f}  "
        f"objective {event.objective:.6f}  risk {event.risk:.6f}  "
        f"learners {event.cardinality}  gap {event.duality_gap:.4f}  {event.seconds:.2f} s",
        flush=True,
    )


def both(first: Event | None, second: Event | None) -> Event | None:
    """Return a callback that calls both, or the one that there is."""
    if first is None or second is None:
        return first or second

    def call(event: Progress) -> None:
        first(event)
        second(event)

    return call
