"""What must hold of any table: a fit that all ways of asking agree on, or a clear refusal."""

from __future__ import annotations

import contextlib
import json
import pickle
import re
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from command_line import run
from frames import Case
from scipy import sparse

from totalqboost import Ensemble, TotalQBoostClassifier, losses
from totalqboost.examples import Examples, check_examples
from totalqboost.learners import CategorySet, Constant, Missing, Stump, Votes
from totalqboost.master import FREE_NU
from totalqboost.penalties import cardinality_price, extra_price

__all__ = ["RULES", "Broken", "fit_or_refusal", "refusal_is_clear", "strict"]

CLEAR = (
    r"column ('|\d)",  # of the table, by name or by position
    r"^y must have (two|all \d) classes among the rows of positive sample_weight",
    r"^monotonic_cst must be 0 for 'x?c?\d+', whose categories have no order",
    r"^categorical_features must be None if X is sparse",
)
SLACK = 1e-9


class Broken(AssertionError):  # noqa: N818
    """A rule that does not hold."""


def need(is_true: Any, *what: Any) -> None:
    if not is_true:
        raise Broken(*what)


@contextlib.contextmanager
def strict() -> Iterator[None]:
    """Make warnings of arithmetic errors; those for users may be."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", RuntimeWarning)
        yield


def classifier(case: Case) -> TotalQBoostClassifier:
    return TotalQBoostClassifier(**case.settings)


def fit_or_refusal(case: Case) -> tuple[TotalQBoostClassifier | None, str]:
    """Return the fitted model and an empty text, or None and what was said."""
    with strict():
        try:
            model = classifier(case).fit(case.X, case.y, case.weight)
            model.decision_function(case.new)
        except (ValueError, TypeError) as error:
            return None, str(error)
    return model, ""


def refusal_is_clear(said: str) -> bool:
    """Tell whether a refusal names the column, or what else is to be mended."""
    return any(re.search(form, said) for form in CLEAR)


def examples_of(case: Case) -> Examples:
    return check_examples(
        case.X,
        case.y,
        case.weight,
        class_weight=case.settings["class_weight"],
        categorical_features=case.settings.get("categorical_features", "from_dtype"),
        accept_sparse=True,
    )


# -- rules ---------------------------------------------------------------------------------------


def answers_agree(case: Case, model: TotalQBoostClassifier) -> None:
    """Scores are finite, labels and probabilities follow from them, the ensemble says the same."""
    scores, n = model.decision_function(case.new), case.new.shape[0]
    n_classes = len(np.unique(np.asarray(case.y)))
    need(scores.shape == ((n,) if n_classes == 2 else (n, n_classes)), "shape", scores.shape)
    need(np.isfinite(scores).all(), "infinite scores")
    place = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
    need(model.predict(case.new).tolist() == model.classes_[place].tolist(), "labels")
    shares = model.predict_proba(case.new)
    need(shares.shape == (n, n_classes), "shape of probabilities", shares.shape)
    need(((shares >= 0) & (shares <= 1)).all(), "probabilities", shares)
    need(np.allclose(shares.sum(axis=1), 1.0, atol=1e-12), "sums of probabilities", shares)
    own = model.ensemble_
    need(own.decision_function(case.new).tolist() == scores.tolist(), "scores of the ensemble")
    need(own.predict(case.new).tolist() == model.predict(case.new).tolist(), "its labels")
    need(np.allclose(own.predict_proba(case.new), shares, atol=1e-12), "its probabilities")


def copies_agree(case: Case, model: TotalQBoostClassifier) -> None:
    """JSON and pickle change nothing."""
    scores = model.decision_function(case.new).tolist()
    told = json.loads(json.dumps(model.ensemble_.to_dict(), allow_nan=False))
    saved = Ensemble.from_dict(told)
    need(saved == model.ensemble_, "another ensemble after JSON")
    need(saved.decision_function(case.new).tolist() == scores, "JSON")
    need(saved.predict(case.new).tolist() == model.predict(case.new).tolist(), "labels after JSON")
    again = pickle.loads(pickle.dumps(model))
    need(again.decision_function(case.new).tolist() == scores, "pickle")
    need(again.predict(case.new).tolist() == model.predict(case.new).tolist(), "labels, pickle")


def rows_stand_alone(case: Case, model: TotalQBoostClassifier) -> None:
    """A row gets the same answer whatever rows are beside it."""
    together = model.decision_function(case.new)
    rows = case.new.tocsr() if sparse.issparse(case.new) else case.new
    for i in range(case.new.shape[0]):
        if hasattr(rows, "slice"):  # of polars and pyarrow
            one = rows.slice(i, 1)
        else:
            one = rows.iloc[[i]] if isinstance(rows, pd.DataFrame) else rows[[i]]
        need(np.array_equal(model.decision_function(one)[0], together[i]), "row alone", i)


def explanations_add_up(case: Case, model: TotalQBoostClassifier) -> None:
    """Contributions and base value are the score; the model can be printed."""
    told = model.explain(case.new)
    total = told.contributions.sum(axis=1) + told.base_values
    need(np.allclose(total, told.scores, atol=1e-9), "explanation", total, told.scores)
    need(len(str(model.ensemble_)) and len(str(told)), "printed")
    need(model.ensemble_._repr_html_().startswith("<"), "printed as HTML")


def same_seed_same_model(case: Case, model: TotalQBoostClassifier) -> None:
    """A second fit finds the same, and leaves the table as it was."""
    if case.settings["random_state"]:
        return  # a second fit takes as long as the first
    before = pickle.dumps(case.X)
    with strict():
        again = classifier(case).fit(case.X, case.y, case.weight)
    need(again.ensemble_ == model.ensemble_, "another model", again.ensemble_, model.ensemble_)
    need(pickle.dumps(case.X) == before, "the table was changed")


def limits_are_kept(case: Case, model: TotalQBoostClassifier) -> None:
    """No more learners and features than allowed, scores that go the way they may."""
    own, limit = model.ensemble_, case.settings["max_features"]
    need(own.n_learners <= case.settings["max_learners"], "learners", own.n_learners)
    need(limit is None or len(own.used_features) <= limit, "features", own.used_features)
    base = own.checked_rows(case.new)[:1]
    for j, way in enumerate(case.settings.get("monotonic_cst", [])):
        if way and own.features[j].categories is None:
            cuts = [h.threshold for h in own.learners if isinstance(h, Stump) and h.feature == j]
            grid = np.unique([-1e300, 0.0, 1e300, *cuts, *np.nextafter(cuts, np.inf)])
            rows = np.repeat(base, len(grid), axis=0).astype(float)
            rows[:, j] = grid
            need((way * np.diff(own.scores(rows)) >= 0).all(), "monotone", j, way)


def objective_is_true(case: Case, model: TotalQBoostClassifier) -> None:
    """The objective that is told is that of the columns and of the ensemble; no bound is above."""
    solution, examples = model.solution_, examples_of(case)
    table: Any = examples.X
    X = table.toarray() if sparse.issparse(table) else table
    need(solution.bound <= solution.objective + SLACK * (1 + abs(solution.objective)), "bound")
    told = solution.objective * _parts(examples)
    kept = [(h, w) for h, w in zip(model.result_.learners, solution.w, strict=True) if w > 0]
    found = _objective(case, model, examples, X, kept)
    need(abs(found - told) <= SLACK * max(1.0, abs(told)), "objective", found, told)
    if examples.n_classes == 2:
        z = examples.y * model.ensemble_.scores(X)
        risk = float(examples.weight @ losses.get(case.settings["loss"]).value(z))
        price = found - _risk(case, examples, X, kept)
        need(abs(risk + price - told) <= 1e-8 * max(1.0, abs(told)), "ensemble", risk + price, told)


def _parts(examples: Examples) -> int:
    return 1 if examples.n_classes == 2 else examples.n_classes


def _risk(case: Case, examples: Examples, X: np.ndarray, kept: list[tuple[Any, float]]) -> float:
    """Return the mean over rows of the loss, summed over classes if there are many."""
    parts = _parts(examples)
    Y = np.where(examples.y[:, None] == np.arange(parts), 1, -1) if parts > 1 else examples.y
    F = sum((w * h.predict(X) for h, w in kept), np.zeros(Y.shape))
    value = losses.get(case.settings["loss"]).value(Y * F)
    return float(examples.weight @ (value.sum(axis=1) if parts > 1 else value))


def _objective(
    case: Case, model: Any, examples: Examples, X: np.ndarray, kept: list[tuple[Any, float]]
) -> float:
    """Return the objective of columns by the book; see MasterProblem."""
    n, chosen = examples.n_effective, case.settings
    paid = [(_plain(h), w) for h, w in kept]
    if chosen["fit_intercept"]:
        paid = [(h, w) for h, w in paid if not isinstance(h, Constant)]
    weight = sum(w for _, w in paid)
    total = _risk(case, examples, X, kept) + model.l1_penalty_ * weight
    total += FREE_NU * _parts(examples) * (sum(w for _, w in kept) - weight)
    total += model.cardinality_penalty_ * len(paid)
    total += extra_price(n) * sum(_extras(h, X, examples) for h, _ in paid)
    costs = np.broadcast_to(chosen.get("feature_costs", 0.0), len(examples.features))
    unit = model.cardinality_penalty_ or cardinality_price("auto", n, 2)
    read = {feature for h, _ in paid for feature in h.features}
    return total + unit * float(sum(costs[feature] for feature in read))


def _plain(learner: Any) -> Any:
    return learner.learner if isinstance(learner, Votes) else learner


def _extras(learner: Any, X: np.ndarray, examples: Examples) -> int:
    if isinstance(learner, Missing):
        return 1
    if isinstance(learner, CategorySet):
        present = np.unique(X[:, learner.feature])
        inside = np.isin(present, learner.codes).sum()
        return max(min(inside, len(present) - inside) - 1, 0)
    if isinstance(learner, Stump) and examples.features[learner.feature].has_missing:
        x = X[:, learner.feature]
        above = examples.weight[x > learner.threshold].sum()
        known = examples.weight[~np.isnan(x)].sum()
        return int(learner.missing_above != bool(above > (0.5 + 1e-9) * known))
    return 0


def command_line_agrees(case: Case, model: TotalQBoostClassifier) -> None:
    """A file of the new rows gets the same labels; so does a model of a file, if it can."""
    if not case.goes_to_csv or case.settings["random_state"]:
        return  # files take long
    names = list(case.X.columns)
    scores = ["score"] if case.n_classes == 2 else [f"score_{c}" for c in model.classes_]
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        case.new.to_csv(place / "new.csv", index=False)
        model.ensemble_.save(place / "model.json")
        found = _predicted(place, "model.json")
        expected = np.reshape(model.decision_function(case.new), (-1, len(scores)))
        need(np.allclose(found[scores], expected, rtol=1e-12, atol=1e-12), "predict of a model")
        labels = model.predict(case.new).astype(str).tolist()
        need(found["label"].astype(str).tolist() == labels, "labels of the command line")
        case.X.assign(y=np.asarray(case.y)).to_csv(place / "data.csv", index=False)
        said = run(
            "fit",
            place / "data.csv",
            "--target",
            "y",
            "--max-learners",
            3,
            "--out",
            place / "m.json",
        )
        need(said.exit_code in (0, 2), said.output)
        if said.exit_code:
            need(any(f"'{name}'" in said.stderr for name in [*names, "y"]), said.stderr)
            return
        found = _predicted(place, "m.json")
        alike = TotalQBoostClassifier(0.0, max_learners=3).fit(case.X, np.asarray(case.y))
        expected = np.reshape(alike.decision_function(case.new), (-1, len(scores)))
        need(np.allclose(found[scores], expected, rtol=1e-9, atol=1e-9), "fit", found, expected)


def _predicted(place: Path, name: str) -> pd.DataFrame:
    out = place / f"{name}.csv"
    said = run("predict", place / name, place / "new.csv", "--out", out)
    need(said.exit_code == 0, said.output)
    return pd.read_csv(out, keep_default_na=False)


Rule = Callable[[Case, TotalQBoostClassifier], None]
RULES: dict[str, Rule] = {
    "answers agree": answers_agree,
    "JSON and pickle change nothing": copies_agree,
    "rows stand alone": rows_stand_alone,
    "explanations add up": explanations_add_up,
    "limits are kept": limits_are_kept,
    "the objective is true": objective_is_true,
    "same seed, same model": same_seed_same_model,
    "the command line agrees": command_line_agrees,
}
