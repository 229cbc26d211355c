"""Explanations: contributions that add up, and SHAP values that are exact."""

from __future__ import annotations

from itertools import combinations
from math import comb

import numpy as np
import pandas as pd
import pytest
from ensembles import internal, mixed_ensemble, mixed_frame

from totalqboost import Constant, Ensemble, Stump, TotalQBoostClassifier
from totalqboost.datasets import make_ringnorm
from totalqboost.learners import Fitted

NAMES = ("age", "height", "weight", "dose")
BACKGROUND = np.random.default_rng(1).normal(size=(37, 4))
ROWS = np.random.default_rng(2).normal(size=(8, 4))


def random_ensemble(seed, n_learners=12):
    rng = np.random.default_rng(seed)
    learners = [
        Stump(int(rng.integers(3)), float(rng.normal()), int(rng.choice([-1, 1])))
        for _ in range(n_learners - 1)
    ]
    weights = tuple(rng.random(n_learners) + 0.01)
    return Ensemble((*learners, Constant(-1)), weights, 0.4, ("no", "yes"), NAMES, "logistic")


def shapley_by_subsets(model, x, background):
    """The definition: what feature j adds to subsets S of the others, over all S."""
    p = len(x)

    def value(subset):
        rows = background.copy()
        rows[:, list(subset)] = x[list(subset)]
        return model.decision_function(rows).mean()

    phi = np.zeros(p)
    for j in range(p):
        others = [k for k in range(p) if k != j]
        for size in range(p):
            for subset in combinations(others, size):
                gain = value((*subset, j)) - value(subset)
                phi[j] += gain / (p * comb(p - 1, size))
    return phi


# -- the numbers -------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_feature_contributions_are_shapley_values_by_definition(seed):
    model = random_ensemble(seed)
    found = model.explain(ROWS, BACKGROUND).feature_contributions
    slow = [shapley_by_subsets(model, x, BACKGROUND) for x in ROWS]
    np.testing.assert_allclose(found, slow, atol=1e-12)
    assert np.abs(found).max() > 0.1


def test_the_shap_package_gives_the_same_values():
    import shap  # some seconds

    X, y = make_ringnorm(200, seed=0, n_features=5)
    model = TotalQBoostClassifier(0.002, max_learners=9).fit(X[:150], y[:150]).ensemble_
    masker = shap.maskers.Independent(X[:150], max_samples=150)
    theirs = shap.explainers.Exact(model.decision_function, masker)(X[150:])
    ours = model.explain(X[150:], X[:150])
    np.testing.assert_allclose(ours.feature_contributions, theirs.values, atol=1e-9)
    np.testing.assert_allclose(ours.base_value, theirs.base_values, atol=1e-9)
    assert np.abs(theirs.values).max() > 0.1


@pytest.mark.parametrize("background", [None, BACKGROUND, BACKGROUND[:1]])
def test_contributions_add_up_to_the_scores(background):
    model = random_ensemble(3)
    found = model.explain(ROWS, background)
    scores = model.decision_function(ROWS)
    np.testing.assert_array_equal(found.scores, scores)
    np.testing.assert_allclose(found.base_value + found.contributions.sum(axis=1), scores)
    np.testing.assert_allclose(found.base_value + found.feature_contributions.sum(axis=1), scores)
    np.testing.assert_array_equal(found.probabilities, model.predict_proba(ROWS)[:, 1])


def test_the_base_value_is_the_mean_score_of_the_background():
    model = random_ensemble(4)
    found = model.explain(ROWS, BACKGROUND)
    assert found.base_value == pytest.approx(model.decision_function(BACKGROUND).mean(), abs=1e-12)
    mean = model.explain(BACKGROUND, BACKGROUND).contributions.mean(axis=0)
    np.testing.assert_allclose(mean, 0.0, atol=1e-12)


def test_without_a_background_contributions_are_weighted_votes():
    model = Ensemble((Stump(0, 0.0), Constant(-1), Stump(1, 0.0, -1)), (2.0, 0.5, 1.0), 0.25)
    found = model.explain([3.0, 4.0])
    np.testing.assert_array_equal(found.votes, [[1, -1, -1]])
    np.testing.assert_array_equal(found.contributions, [[2.0, 0.0, -1.0]])
    assert found.base_value == -0.25  # the constant is a part of it


def test_a_feature_without_stumps_contributes_nothing():
    found = random_ensemble(5).explain(ROWS, BACKGROUND)
    assert found.feature_contributions.shape == (8, 4)
    np.testing.assert_array_equal(found.feature_contributions[:, 3], 0.0)


def test_an_ensemble_without_learners_explains_its_intercept():
    found = Ensemble((), (), -2.0).explain(ROWS, BACKGROUND)
    assert found.base_value == -2.0
    np.testing.assert_array_equal(found.feature_contributions, np.zeros((8, 4)))
    assert str(found[0]).startswith("score -2: -1")


# -- rows of all kinds -------------------------------------------------------------------


def test_one_row_may_be_given_in_any_form():
    model = random_ensemble(6)
    frame = pd.DataFrame(ROWS, columns=NAMES)
    expected = model.explain(ROWS[[2]], BACKGROUND).contributions
    reordered = list(reversed(NAMES))
    for row in (ROWS[2], ROWS[2].tolist(), frame.iloc[2], frame.loc[2, reordered], frame.iloc[[2]]):
        found = model.explain(row, pd.DataFrame(BACKGROUND, columns=NAMES)[reordered])
        np.testing.assert_array_equal(found.contributions, expected)
        np.testing.assert_array_equal(found.X, ROWS[[2]])


def test_rows_can_be_taken_out_one_by_one():
    found = random_ensemble(7).explain(ROWS, BACKGROUND)
    assert len(found) == len(list(found)) == 8
    for i, one in enumerate(found):
        np.testing.assert_array_equal(one.feature_contributions[0], found.feature_contributions[i])
        assert (one.scores[0], one.probabilities[0]) == (found.scores[i], found.probabilities[i])
        assert str(one) == str(found[i]) == str(found[i : i + 1])
    np.testing.assert_array_equal(found[-1].X, ROWS[[7]])
    assert len(found[2:5]) == 3
    with pytest.raises(IndexError):
        found[8]


@pytest.mark.parametrize(
    ("x", "background", "message"),
    [
        (ROWS[0, :3], None, "x must have 4 columns"),
        (ROWS, ROWS[:, :3], "background must have 4 columns"),
        (ROWS, ROWS[:0], "background must have at least one row, got none"),
        (np.full(4, -np.inf), None, "x must not contain infinity"),
        (ROWS, np.full((2, 4), np.inf), "background must not contain infinity .column 'age'"),
        (ROWS, pd.DataFrame(ROWS, columns=["a", "b", "c", "d"]), "background must have the col"),
    ],
)
def test_bad_rows_are_named(x, background, message):
    with pytest.raises(ValueError, match=message):
        random_ensemble(8).explain(x, background)


class Answers:
    """A classifier that looks at two features at once."""

    def predict(self, X):
        return np.where(X[:, 0] * X[:, 1] > 0, 1, -1)


def test_classifiers_of_many_features_have_contributions_but_no_features():
    model = Ensemble((Fitted(0, Answers()), Stump(1, 0.0)), (0.5, 0.2), 0.1)
    found = model.explain([[1.0, 2.0], [1.0, -2.0]], [[1.0, 1.0], [1.0, -1.0]])
    np.testing.assert_allclose(found.contributions, [[0.5, 0.2], [-0.5, -0.2]])
    with pytest.raises(TypeError, match="one feature each, got a Fitted; use contributions"):
        _ = found.feature_contributions
    assert "classifier 0" in str(found)
    assert "classifier 0" in str(found[0])


# -- for people --------------------------------------------------------------------------


def test_stumps_of_a_feature_stand_together_and_the_heaviest_feature_first():
    stumps = (Stump(1, 9.0), Stump(0, 1.0), Stump(1, 2.0), Stump(0, 5.0, -1))
    model = Ensemble(stumps, (1.0, 0.6, 0.5, 0.4), 0.1, ("no", "yes"), ("age", "dose"), "logistic")
    lines = str(model.explain([3.0, 4.0])).splitlines()
    assert lines[0] == "score +0.6: 'yes', probability of 'yes' 0.646, base value +0.1"
    assert [line.split() for line in lines[1:]] == [
        ["contribution", "feature", "value", "part", "'yes'", "if", "votes"],
        ["+1", "age", "3", "+0.6", ">", "1", "'yes'"],
        ["+0.4", "<=", "5", "'yes'"],
        ["-0.5", "dose", "4", "-1", ">", "9", "'no'"],
        ["+0.5", ">", "2", "'yes'"],
    ]


def test_several_rows_give_a_summary_of_the_features():
    model = Ensemble((Stump(0, 0.0), Stump(1, 0.0)), (0.5, 1.0), features=("age", "dose"))
    text = str(model.explain([[1.0, 1.0], [1.0, -1.0], [-1.0, -1.0]], [[1.0, 1.0], [1.0, -1.0]]))
    assert [line.split() for line in text.splitlines()] == [
        ["3", "rows,", "base", "value", "+0.5"],
        ["mean", "|contribution|", "feature", "least", "greatest", "weak", "classifiers"],
        ["1", "dose", "-1", "+1", "1"],
        ["0.3333", "age", "-1", "+0", "1"],
    ]


def test_features_of_the_same_name_are_not_added_up():
    model = Ensemble((Stump(0, 0.0), Stump(1, 0.0)), (0.5, 1.0), features=("a", "a"))
    assert len(str(model.explain([1.0, 1.0])).splitlines()) == 4
    assert "+1.5" not in str(model.explain([1.0, 1.0])).split("\n", 1)[1]


def test_a_loss_of_ones_own_gives_no_probability():
    model = Ensemble((Stump(0, 0.0),), (0.5,), loss="squareplus")
    found = model.explain([1.0])
    assert np.isnan(found.probabilities).all()
    assert str(found).startswith("score +0.5: 1, base value +0\n")


def test_no_rows_are_no_error():
    found = random_ensemble(9).explain(np.empty((0, 4)))
    assert len(found) == 0
    assert str(found).startswith("0 rows")


def test_the_table_is_html_in_a_notebook():
    model = Ensemble((Stump(0, 0.0),), (0.5,), 0.0, ("<no>", "<yes>"), ("<b>age</b>",))
    page = model.explain([1.0])._repr_html_()
    assert "&lt;b&gt;age&lt;/b&gt;" in page
    assert "<b>" not in page
    assert "<yes>" not in page
    assert "<table" in page
    assert repr(model.explain([1.0])) == "<Explanation of 1 row by 1 weak classifier>"


# -- gaps, categories, many classes ------------------------------------------------------


def shapley_of_frames(score, row, background):
    """The definition, on tables with text: what a column adds to subsets of the others."""
    columns = list(background.columns)
    phi = np.zeros(len(columns))

    def value(names):
        rows = background.copy()
        for name in names:
            rows[name] = [row[name]] * len(rows)
        return score(rows)

    for j, own in enumerate(columns):
        others = [name for name in columns if name != own]
        for size in range(len(columns)):
            for names in combinations(others, size):
                gain = value((*names, own)) - value(names)
                phi[j] += gain / (len(columns) * comb(len(columns) - 1, size))
    return phi


@pytest.mark.parametrize("n_classes", [2, 3])
def test_categories_and_gaps_have_shapley_values_by_definition(n_classes):
    model, background, rows = mixed_ensemble(1, n_classes), mixed_frame(1, 7), mixed_frame(2, 3)
    found = model.explain(rows, background)
    for i, one in enumerate(found):
        label = int(one.labels[0])

        def score(frame, label=label):
            scores = model.decision_function(frame)
            return (scores[:, label] if n_classes > 2 else scores).mean()

        slow = shapley_of_frames(score, rows.iloc[i], background)
        np.testing.assert_allclose(one.feature_contributions[0], slow, atol=1e-12)
        assert one.base_value == pytest.approx(score(background))
    assert np.abs(found.feature_contributions).max() > 0.1


def test_the_predicted_class_is_explained_unless_another_is_asked_for():
    model, rows = mixed_ensemble(3, 4), mixed_frame(3, 30)
    scores, probabilities = model.decision_function(rows), model.predict_proba(rows)
    found = model.explain(rows, rows)
    assert len(set(found.labels.tolist())) > 1
    np.testing.assert_array_equal(np.array(model.classes)[found.labels], model.predict(rows))
    np.testing.assert_array_equal(found.scores, scores.max(axis=1))
    np.testing.assert_array_equal(found.probabilities, probabilities.max(axis=1))
    np.testing.assert_allclose(found.base_values + found.contributions.sum(axis=1), found.scores)
    with pytest.raises(ValueError, match="several classes are explained"):
        _ = found.base_value
    for c, label in enumerate(model.classes):
        asked = model.explain(rows, rows, label)
        np.testing.assert_array_equal(asked.scores, scores[:, c])
        np.testing.assert_array_equal(asked.probabilities, probabilities[:, c])
        np.testing.assert_array_equal(asked.predicted, scores.argmax(axis=1))
        assert asked.base_value == pytest.approx(scores[:, c].mean())
        np.testing.assert_allclose(asked.base_value + asked.contributions.sum(axis=1), scores[:, c])
    with pytest.raises(ValueError, match=r"label must be one of \('a', 'b', 'c', 'd'\) or None"):
        model.explain(rows, label="e")


def test_the_first_of_two_classes_has_the_opposite_contributions():
    model, rows = mixed_ensemble(3), mixed_frame(3, 5)
    second, first = model.explain(rows, rows), model.explain(rows, rows, "no")
    np.testing.assert_array_equal(first.contributions, -second.contributions)
    np.testing.assert_array_equal(first.scores, -model.decision_function(rows))
    np.testing.assert_allclose(first.probabilities, model.predict_proba(rows)[:, 0])
    np.testing.assert_array_equal(model.explain(rows, rows, "yes").scores, second.scores)
    assert " of 'no': " in str(first[0])


def test_values_are_shown_by_label():
    model, frame = mixed_ensemble(1), mixed_frame(1)
    np.testing.assert_array_equal(model.explain(frame).X[:, 1], internal(frame)[:, 1])
    row = {"age": np.nan, "city": "Chur", "dose": 1.5, "unused": 0.0, "is_new": True}
    lines = str(model.explain(pd.DataFrame([row]))).splitlines()
    assert any(" age " in line and " missing " in line for line in lines)
    assert any(" city " in line and " not seen in training " in line for line in lines)
    assert any(" dose " in line and " 1.5 " in line for line in lines)
    text = str(model.explain(pd.Series({**row, "city": "Zug"})))
    assert " Zug " in text
    assert " Zug " in str(model.explain([None, "Zug", 1.5, 0.0, True]))


def test_a_row_of_many_classes_tells_which_conditions_hold():
    stumps = (Stump(0, 1.0), Stump(1, 2.0))
    weights = ((1.0, -1.0, 0.5), (0.25, 0.5, 0.0))
    model = Ensemble(stumps, weights, (0.0, 0.1, 0.0), ("a", "b", "c"), NAMES[:2], "multinomial")
    lines = str(model.explain([3.0, 1.0])).splitlines()
    assert lines[0] == "score +0.75 of 'a': 'a', probability of 'a' 0.528, base value +0"
    assert [line.split() for line in lines[1:]] == [
        ["contribution", "feature", "value", "part", "condition", "holds"],
        ["+1", "age", "3", "+1", ">", "1", "yes"],
        ["-0.25", "height", "1", "-0.25", ">", "2", "no"],
    ]
    both = model.explain([[3.0, 1.0], [0.0, 3.0]])
    assert str(both).startswith("2 rows, scores of the predicted classes")
    assert str(model.explain([[3.0, 1.0]] * 2, label="c")).startswith("2 rows, scores of 'c', base")
