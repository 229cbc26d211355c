"""TotalQBoostClassifierCV: size and l1 price chosen by cross-validation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from totalqboost.boosting import Event
from totalqboost.classifier import EnsembleClassifier
from totalqboost.cluster.training import training_examples
from totalqboost.dictionaries.base import Dictionary
from totalqboost.ensemble import Ensemble
from totalqboost.estimator import both, print_event
from totalqboost.examples import Examples
from totalqboost.frontier import Frontier
from totalqboost.frontier.validated import CrossValidation, Curves, validated_frontier
from totalqboost.losses import Loss
from totalqboost.parameters import check_integer, check_jobs
from totalqboost.selection import Choice, check_choices, check_dictionaries, check_rule
from totalqboost.settings import Settings, check_settings, generator, warn_if_separated
from totalqboost.solving import Interrupted, MasterSolver, SolverError
from totalqboost.wishes import check_wishes

__all__ = ["TotalQBoostClassifierCV"]


class TotalQBoostClassifierCV(EnsembleClassifier):
    """The smallest ensemble that does the job, its size chosen by cross-validation.

    Ensembles of every size are trained in every fold, with several l1 prices. For each size the
    price with the least out-of-fold log-loss is kept, then a rule chooses the size. The ensemble
    is trained on all rows, and its weights are multiplied by the factor of least out-of-fold
    log-loss, which makes probabilities honest and changes no label.

    Parameters
    ----------
    max_learners : int, default=30
        Largest size to consider.
    cv : int, splitter, iterable or None, default=5
        Folds, as everywhere in scikit-learn; a number means stratified folds, None is 5.
    rule : {"paired", "1se", "min", "ric"} or callable, default="paired"
        How the size is chosen; see :meth:`totalqboost.Frontier.best`. A callable gets the
        frontier and returns a size.
    scoring : str or callable, optional
        A scorer of scikit-learn to choose by, instead of log-loss (for the price) and error
        (for the size). It judges ensembles before their weights are multiplied; the rule
        "paired" is "1se" then, with the spread between folds.
    l1_penalty : float, "auto" or sequence of floats, default="auto"
        Prices of weight to choose among. "auto" is 2, 4 and 8 over n, where n is the number of
        rows trained on.
    categorical_features : "from_dtype", array-like or None, default="from_dtype"
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
    dictionary : str, Dictionary or sequence of Dictionary, default="stumps"
        Several are chosen among like prices: ``[Stumps(), Stumps(24), Stumps(8)]`` chooses the
        number of bins, which helps small noisy data.
    loss, solver, tol, fit_intercept, class_weight, multiclass, n_bits, random_state
        As in :class:`totalqboost.TotalQBoostClassifier`. A ``solver`` other than "local" is
        asked about the final frontier, not in the folds. With a loss other than the logistic
        one, the price is chosen by error.
    n_jobs : int, optional
        Folds that are trained at the same time; -1 is all processors. The result does not
        depend on it.
    verbose : int, default=0
        1 prints a line per fold and per step of the search.

    Attributes
    ----------
    ensemble_ : Ensemble
        The model; ``print`` it, or ``save`` it as JSON.
    n_learners_ : int
        Number of weak classifiers; the intercept is not counted.
    l1_penalty_ : float
        The price that its size was trained with.
    frontier_ : Frontier
        The ensembles of all sizes, with out-of-fold error, log-loss and AUC.
    cv_results_ : dict of arrays
        One entry for each l1 price, dictionary and size: ``pandas.DataFrame(cv_results_)``.
        Log-losses are those before weights are multiplied; ``frontier_`` has those after.
    classes_, n_features_in_, feature_names_in_, feature_importances_
        As everywhere in scikit-learn.

    Examples
    --------
    >>> from totalqboost import TotalQBoostClassifierCV
    >>> from totalqboost.datasets import make_twonorm
    >>> X, y = make_twonorm(300, seed=0)
    >>> clf = TotalQBoostClassifierCV(max_learners=6).fit(X, y)
    >>> clf.n_learners_
    6
    """

    def __init__(
        self,
        max_learners: int = 30,
        *,
        cv: Any = 5,
        rule: str | Callable[[Frontier], int] = "paired",
        scoring: Any = None,
        l1_penalty: float | str | Sequence[float] = "auto",
        loss: str | Loss = "logistic",
        dictionary: str | Dictionary | Sequence[Dictionary] = "stumps",
        solver: str | MasterSolver = "local",
        tol: float | str = 5e-4,
        fit_intercept: bool = True,
        class_weight: Any = None,
        categorical_features: Any = "from_dtype",
        feature_costs: Any = None,
        max_features: int | None = None,
        monotonic_cst: Any = None,
        multiclass: str = "joint",
        n_bits: int | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ):
        self.max_learners = max_learners
        self.cv = cv
        self.rule = rule
        self.scoring = scoring
        self.l1_penalty = l1_penalty
        self.loss = loss
        self.dictionary = dictionary
        self.solver = solver
        self.tol = tol
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.categorical_features = categorical_features
        self.feature_costs = feature_costs
        self.max_features = max_features
        self.monotonic_cst = monotonic_cst
        self.multiclass = multiclass
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
        groups: Any = None,
        on_event: Event | None = None,
    ) -> TotalQBoostClassifierCV:
        """Choose the size and fit the ensemble.

        Parameters
        ----------
        X, y, sample_weight
            As in :meth:`TotalQBoostClassifier.fit`; weights count in the folds too.
        groups : array-like of shape (n_samples,), optional
            For splitters that keep groups together. Standard errors are those of groups.
        on_event : callable, optional
            Called with :class:`totalqboost.boosting.FoldDone` after each fold, and with
            :class:`totalqboost.boosting.Searched` as the final search goes on.

        Returns
        -------
        self
            Ctrl-C in the final search leaves it fitted with the sizes found so far, then raises
            :class:`totalqboost.Interrupted`; before that nothing is kept.
        """
        with self._all_or_nothing():
            return self._fit(X, y, sample_weight, groups, on_event)

    def _fit(
        self, X: Any, y: Any, sample_weight: Any, groups: Any, on_event: Event | None
    ) -> TotalQBoostClassifierCV:
        settings, offered, choices = self._check_parameters()
        with training_examples(
            X,
            y,
            sample_weight,
            class_weight=self.class_weight,
            categorical_features=self.categorical_features,
            estimator=self,
            dictionaries=offered,
        ) as examples:
            examples = settings.constrained(examples)
            self._fit_examples(examples, settings, offered, choices, groups, on_event)
            warn_if_separated(self.ensemble_, examples, settings.loss, self.l1_penalty_)
        return self

    def _fit_examples(
        self,
        examples: Examples,
        settings: Settings,
        offered: list[Dictionary],
        choices: list[Choice],
        groups: Any,
        on_event: Event | None,
    ) -> None:
        how = CrossValidation(self.cv, groups, self.scoring, self.n_jobs)
        try:
            front, curves = validated_frontier(
                settings,
                offered,
                choices,
                examples,
                how,
                self.max_learners,
                generator(self.random_state),
                both(on_event, print_event if self.verbose else None),
            )
        except (Interrupted, SolverError) as stop:
            if stop.result is not None:
                self._keep(stop.result, examples, settings.loss)
                self.__dict__.pop("cv_results_", None)  # of an earlier fit
            raise
        self._keep(front, examples, settings.loss)
        self.cv_results_ = _table(curves, choices, examples)

    def _check_parameters(self) -> tuple[Settings, list[Dictionary], list[Choice]]:
        check_integer("max_learners", self.max_learners, 1)
        check_jobs(self.n_jobs)
        check_rule(self.rule)
        offered = check_dictionaries(self.dictionary)
        choices = check_choices(self.l1_penalty, len(offered))
        settings = check_settings(
            self.loss,
            offered[0],
            self.solver,
            "auto",
            0.0,
            self.max_learners,
            self.tol,
            self.fit_intercept,
            None,
            self.n_bits,
            multiclass=self.multiclass,
            wishes=check_wishes(self.feature_costs, self.max_features, self.monotonic_cst),
        )
        return settings, offered, choices

    def _keep(self, front: Frontier, examples: Examples, loss: Loss) -> None:
        chosen = front.best(rule=self.rule)
        self.classes_, self.loss_, self.frontier_ = examples.classes, loss, front
        self.ensemble_: Ensemble = chosen.ensemble
        self.n_learners_, self.l1_penalty_ = chosen.n_learners, chosen.l1_penalty


def _table(curves: Curves, choices: Sequence[Choice], examples: Examples) -> dict[str, np.ndarray]:
    """Return the curves of all choices, one row for each choice and size."""
    parts: list[dict[str, Any]] = []
    for place, (validated, choice) in enumerate(zip(curves.validated, choices, strict=True)):
        held_out = validated.held_out
        n_sizes = len(held_out.scores)
        part: dict[str, Any] = {
            "param_l1_penalty": np.full(n_sizes, choice.l1_penalty(examples.n_effective)),
            "param_dictionary": np.full(n_sizes, choice.dictionary),
            "n_learners": np.arange(n_sizes),
            "is_chosen": curves.chosen == place,
        }
        measures = {"error": held_out.error, "log_loss": held_out.log_loss, "auc": held_out.auc}
        score = curves.scores[place]
        if score is not None:
            measures["score"] = score
        for name, measure in measures.items():
            part |= {f"mean_test_{name}": measure.mean, f"se_test_{name}": measure.se}
        parts.append(part)
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
