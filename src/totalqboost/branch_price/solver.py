"""BranchAndPrice: its settings and what it returns."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from totalqboost import losses, solvers
from totalqboost.boosting import Engine, Terms, search
from totalqboost.branch_price.cuts import Cuts
from totalqboost.branch_price.leaves import Leaves
from totalqboost.branch_price.tree import PriceProgress, Stopped, Tree
from totalqboost.dictionaries.stumps import StumpOracle, Stumps
from totalqboost.ensemble import Ensemble
from totalqboost.examples import Examples, check_examples
from totalqboost.interruption import unwrapped_interruption
from totalqboost.kernels.loss_codes import CUSTOM
from totalqboost.losses import Loss
from totalqboost.parameters import check_integer, check_number
from totalqboost.solving import Interrupted, MasterSolver, Status

__all__ = ["BranchAndPrice", "CertifiedEnsemble"]


@dataclass(frozen=True)
class CertifiedEnsemble:
    """The best ensemble found, and a lower bound on what any ensemble of its size can reach.

    Attributes
    ----------
    ensemble : Ensemble
        At most ``max_learners`` stumps.
    objective, bound : float
        Of the ensemble, and a lower bound over the whole dictionary.
    n_cuts, n_branches, n_refits : int
        Cuts of the dictionary, sets of cuts that were priced, sets that were refitted.
    status : Status
        OPTIMAL, TIME_LIMIT, NODE_LIMIT or INTERRUPTED.
    seconds : float
        Duration.

    Examples
    --------
    >>> from totalqboost import BranchAndPrice, datasets
    >>> X, y = datasets.load("flare solar")
    >>> best = BranchAndPrice().solve(X, y, max_learners=2)
    >>> len(best.ensemble.learners), str(best.status), best.bound <= best.objective
    (2, 'optimal', True)
    """

    ensemble: Ensemble
    objective: float
    bound: float
    n_cuts: int
    n_branches: int
    n_refits: int
    status: Status
    seconds: float

    @property
    def gap(self) -> float:
        """(objective - bound) / abs(objective)."""
        return (self.objective - self.bound) / max(abs(self.objective), 1e-300)


@dataclass(frozen=True)
class BranchAndPrice:
    """Exact search over a whole dictionary of stumps, for small data and small ensembles.

    With n cuts of the data the work grows like n^(k - 1) times the size of the data: seconds
    for 30 cuts and k = 6 or for 400 cuts and k = 3.

    Parameters
    ----------
    dictionary : Stumps
        ``Stumps(max_bins=...)`` makes fewer cuts, and then proves less.
    solver : str or MasterSolver
        Solves the restricted master problems on the way to the first ensemble.
    loss : str or Loss
        A built-in loss.
    l1_penalty : float
        The paper's nu. With 0 the search proves as much, but ``bound`` may stay below what it
        proves: only cells bound a set of cuts then, for its best weights may be infinite.
    fit_intercept : bool
        True: a free intercept. False: the constant counts as a learner, as in the paper.
    max_branches : int, optional
        Budget in sets of k - 2 cuts.
    time_limit : float, optional
        Seconds. With fewer than 100 cuts, a bound of what is left takes a few more.
    on_progress : callable, optional
        Called with a :class:`PriceProgress` now and then.

    Examples
    --------
    >>> from totalqboost import datasets
    >>> X, y = datasets.load("flare solar")
    >>> found = BranchAndPrice().solve(X, y, max_learners=3)
    >>> print(found.status, found.gap < 1e-6)
    optimal True
    """

    dictionary: Stumps = field(default_factory=Stumps)
    solver: str | MasterSolver = "local"
    loss: str | Loss = "exponential"
    l1_penalty: float = 1e-6
    fit_intercept: bool = True
    max_branches: int | None = None
    time_limit: float | None = None
    on_progress: Callable[[PriceProgress], None] | None = field(default=None, compare=False)

    def solve(
        self, X: Any, y: Any, max_learners: int, sample_weight: Any = None
    ) -> CertifiedEnsemble:
        """Return the best ensemble of at most ``max_learners`` stumps.

        Parameters
        ----------
        X, y, sample_weight
            As in :class:`totalqboost.TotalQBoostClassifier`; labels of two classes.
        max_learners : int
            k.

        Raises
        ------
        Interrupted
            On Ctrl-C. Its ``result`` is the best ensemble so far, with a valid bound.
        """
        loss = self._checked_loss(max_learners)
        began = time.perf_counter()
        examples = check_examples(X, y, sample_weight, max_classes=2)
        _check_numbers(examples)
        tree = None
        try:
            with unwrapped_interruption():
                oracle = self.dictionary.prepare(examples.X, examples.y)
                cuts = Cuts(oracle, examples.weight)
                leaves = Leaves(cuts, loss, self.l1_penalty, self.fit_intercept)
                deadline = math.inf if self.time_limit is None else began + self.time_limit
                tree = Tree(leaves, self.max_branches, deadline, self.on_progress)
                status = self._run(tree, oracle, examples, loss, max_learners)
        except KeyboardInterrupt:
            status = Status.INTERRUPTED
        result = _result(tree, examples, loss, status, time.perf_counter() - began)
        result = self._noted(result, examples, max_learners)
        if status is Status.INTERRUPTED:
            raise Interrupted(result)
        return result

    def _run(
        self, tree: Tree, oracle: StumpOracle, examples: Examples, loss: Loss, k: int
    ) -> Status:
        """Find a first ensemble, then search; return why the search ended."""
        status = Status.OPTIMAL
        try:
            with unwrapped_interruption():
                try:
                    tree.leaves.offer(self._first(oracle, examples, loss, k).learners)
                except Interrupted as stop:
                    tree.leaves.offer(stop.result.ensemble.learners)
                    raise
                tree.close(k)
        except Stopped as stop:
            status = stop.status
        except KeyboardInterrupt:
            status = Status.INTERRUPTED
        if status not in (Status.OPTIMAL, Status.INTERRUPTED):  # who interrupts does not wait
            tree.relax(k)
        return status

    def _first(self, oracle: StumpOracle, examples: Examples, loss: Loss, k: int) -> Ensemble:
        """Return a good ensemble: the search over the whole dictionary."""
        terms = Terms(
            loss,
            examples.weight,
            self.l1_penalty,
            max_learners=k,
            free_intercept=self.fit_intercept,
        )
        return search(Engine(oracle, terms, solvers.get(self.solver)), k).ensemble

    def _noted(
        self, result: CertifiedEnsemble, examples: Examples, max_learners: int
    ) -> CertifiedEnsemble:
        """Return the result with an ensemble that knows its certificate."""
        noted = result.ensemble.with_training(
            examples.X.shape,
            result.objective,
            result.bound,
            scope="dictionary",
            l1_penalty=self.l1_penalty,
            max_learners=max_learners,
        )
        return replace(result, ensemble=noted)

    def _checked_loss(self, max_learners: int) -> Loss:
        """Check the settings and return the loss."""
        loss = losses.get(self.loss)
        if loss.code == CUSTOM:
            raise ValueError(f"loss must be one of {losses.names()}, got {self.loss!r}")
        if not isinstance(self.dictionary, Stumps):
            raise TypeError(f"dictionary must be Stumps, got {self.dictionary!r}")
        check_number("l1_penalty", self.l1_penalty)
        check_integer("max_learners", max_learners, 1)
        return loss


def _check_numbers(examples: Examples) -> None:
    """Refuse missing values and categories: a bound over all cuts does not know of theirs."""
    for feature in examples.features:
        if feature.categories is not None or feature.has_missing:
            what = "NaN" if feature.categories is None else "categories"
            raise ValueError(
                f"X must hold numbers only for BranchAndPrice, column {feature.name!r} has {what}; "
                "leave it out, or make numbers of it"
            )


def _result(
    tree: Tree | None, examples: Examples, loss: Loss, status: Status, seconds: float
) -> CertifiedEnsemble:
    """Return what was found; without a tree, before any cut was known, the empty ensemble."""
    ensemble, objective, bound = Ensemble((), ()), float(loss.value(np.zeros(1))[0]), 0.0
    n_cuts = n_branches = n_refits = 0
    if tree is not None:
        leaves = tree.leaves
        ensemble, objective, bound = leaves.ensemble(), leaves.best.objective, tree.bound
        n_cuts, n_branches, n_refits = len(leaves.cuts), tree.n_branches, leaves.n_refits
    named = ensemble.with_names(examples.classes, examples.features, loss.name)
    return CertifiedEnsemble(named, objective, bound, n_cuts, n_branches, n_refits, status, seconds)
