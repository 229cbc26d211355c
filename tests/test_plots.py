"""Pictures and tables: what is drawn is what was measured."""

from __future__ import annotations

import builtins
import re
from dataclasses import dataclass, replace
from types import SimpleNamespace

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from ensembles import mixed_ensemble, mixed_frame
from sklearn.datasets import load_iris

from totalqboost import Constant, Ensemble, Stump, TotalQBoostClassifier, TotalQBoostClassifierCV
from totalqboost.datasets import make_ringnorm
from totalqboost.ensemble import shape_of
from totalqboost.learners import Fitted
from totalqboost.plots import FrontierDisplay, frontier_html, frontier_text, plot_shape, plot_trace

UNKNOWN = np.nan


@dataclass
class Point:
    n_learners: int
    risk: float
    objective: float
    train_error: float
    ensemble: Ensemble
    valid_error: float = UNKNOWN
    valid_error_se: float = UNKNOWN
    valid_log_loss: float = UNKNOWN
    valid_log_loss_se: float = UNKNOWN
    valid_auc: float = UNKNOWN
    valid_auc_se: float = UNKNOWN
    penalty: float = UNKNOWN
    l1_penalty: float = 0.01


class Front:
    """A frontier whose rules are the sizes they choose."""

    def __init__(self, points):
        self.points = points

    def __iter__(self):
        return iter(self.points)

    def best(self, rule):
        return next(p for p in self.points if p.n_learners == {"paired": 3, "min": 4}[rule])


def made_up(loss="logistic", **unknown):
    ensemble = Ensemble((), (), loss=loss)
    points = [
        Point(
            n_learners=k,
            risk=0.5 / (k + 1),
            objective=0.6 / (k + 1),
            train_error=0.3 / (k + 1),
            ensemble=ensemble,
            valid_error=0.4 / (k + 1),
            valid_error_se=0.02,
            valid_log_loss=0.7 / (k + 1),
            valid_log_loss_se=0.03,
            valid_auc=1 - 0.5 / (k + 1),
            valid_auc_se=0.01,
            penalty=UNKNOWN if k == 0 else 0.1 / k,
        )
        for k in (0, 1, 3, 4)  # a size may be missing
    ]
    return Front([replace(point, **unknown) for point in points])


TRAINING_ONLY = {
    name + ending: UNKNOWN
    for name in ("valid_error", "valid_log_loss", "valid_auc")
    for ending in ("", "_se")
}


@pytest.fixture(autouse=True)
def _no_figures_left():
    yield
    plt.close("all")


def labels(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def band_of(display):
    vertices = display.band_.get_paths()[0].vertices
    at = {x: vertices[vertices[:, 0] == x, 1] for x in display.sizes}
    return np.array([(y.min(), y.max()) for y in at.values()])


# -- the frontier ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("metric", "values", "width", "train"),
    [
        ("error", [40, 20, 10, 8], 2.0, [30, 15, 7.5, 6]),
        ("log_loss", [0.7, 0.35, 0.175, 0.14], 0.03, [0.5, 0.25, 0.125, 0.1]),
        ("auc", [0.5, 0.75, 0.875, 0.9], 0.01, None),
    ],
)
def test_curve_and_band_are_the_numbers_of_the_points(metric, values, width, train):
    display = FrontierDisplay.from_frontier(made_up(), metric)
    np.testing.assert_array_equal(display.line_.get_xdata(), [0, 1, 3, 4])
    np.testing.assert_allclose(display.line_.get_ydata(), values)
    expected = np.array(values)[:, None] + [-width, width]
    np.testing.assert_allclose(band_of(display), expected, atol=1e-12)
    if train is None:
        assert display.train_line_ is None
    else:
        np.testing.assert_allclose(display.train_line_.get_ydata(), train)
    assert display.ax_.figure is display.figure_


def test_the_chosen_size_is_marked():
    display = FrontierDisplay.from_frontier(made_up())
    assert (display.chosen_.get_xdata()[0], display.chosen_.get_ydata()[0]) == (3, 10.0)
    assert "chosen: 3 learners, 10.0 %" in labels(display.ax_)
    display = FrontierDisplay.from_frontier(made_up(), "log_loss", rule="min")
    assert "chosen: 4 learners, 0.140" in labels(display.ax_)
    assert FrontierDisplay.from_frontier(made_up(), rule=None).chosen_ is None


def test_an_estimator_shows_the_size_it_chose():
    estimator = SimpleNamespace(frontier_=made_up(), n_learners_=1)
    display = FrontierDisplay.from_estimator(estimator, "auc")
    assert "chosen: 1 learner, 0.750" in labels(display.ax_)
    np.testing.assert_allclose(display.line_.get_ydata(), [0.5, 0.75, 0.875, 0.9])


def test_a_fitted_estimator_is_drawn():
    data = make_ringnorm(90, seed=0, n_features=3)
    estimator = TotalQBoostClassifierCV(max_learners=3, cv=3).fit(*data)
    points = list(estimator.frontier_)
    for metric in ("error", "log_loss", "auc"):
        display = FrontierDisplay.from_estimator(estimator, metric)
        assert display.band_ is not None
        assert display.chosen_.get_xdata()[0] == estimator.n_learners_
        np.testing.assert_array_equal(display.line_.get_xdata(), [p.n_learners for p in points])
    np.testing.assert_array_equal(display.line_.get_ydata(), [p.valid_auc for p in points])
    assert frontier_text(estimator.frontier_).count("\n") == len(points) + 1


def test_an_estimator_without_a_frontier_is_named():
    with pytest.raises(TypeError, match=r"a fitted TotalQBoostClassifierCV, got a SimpleNamespace"):
        FrontierDisplay.from_estimator(SimpleNamespace())


def test_without_validation_the_training_curve_is_the_curve():
    display = FrontierDisplay.from_frontier(made_up(**TRAINING_ONLY))
    np.testing.assert_allclose(display.line_.get_ydata(), [30, 15, 7.5, 6])
    assert display.band_ is None
    assert display.train_line_ is None
    assert labels(display.ax_) == ["training", "chosen: 3 learners, 7.5 %"]


@pytest.mark.parametrize(("loss", "metric"), [("logistic", "auc"), ("exponential", "log_loss")])
def test_a_metric_that_was_not_measured_is_named(loss, metric):
    with pytest.raises(ValueError, match=rf"got '{metric}', which needs validation rows"):
        FrontierDisplay.from_frontier(made_up(loss, **TRAINING_ONLY), metric)


def test_the_risk_of_another_loss_is_no_log_loss():
    assert FrontierDisplay.from_frontier(made_up("exponential"), "log_loss").train_line_ is None


def test_an_unknown_metric_is_named():
    with pytest.raises(ValueError, match=r"one of \['error', 'log_loss', 'auc'\], got 'f1'"):
        FrontierDisplay.from_frontier(made_up(), "f1")


def test_without_standard_errors_there_is_no_band():
    display = FrontierDisplay.from_frontier(made_up(valid_error_se=UNKNOWN))
    assert display.band_ is None
    assert "validation" in labels(display.ax_)


def test_two_frontiers_share_axes():
    ax = plt.figure().add_subplot()
    first = FrontierDisplay.from_frontier(made_up(), ax=ax, name="ours", plot_train=False)
    second = FrontierDisplay.from_frontier(
        made_up(), ax=ax, name="theirs", rule=None, color="C4", plot_train=False
    )
    assert first.ax_ is second.ax_ is ax
    assert second.line_.get_color() == "C4"
    assert first.line_.get_color() != second.line_.get_color()
    names = ["ours ± standard error", "theirs ± standard error"]
    assert [text for text in labels(ax) if "chosen" not in text] == names


def test_a_display_can_be_drawn_again():
    display = FrontierDisplay.from_frontier(made_up())
    before = display.ax_
    ax = plt.figure().add_subplot()
    assert display.plot(ax) is display
    assert display.ax_ is ax
    assert display.ax_ is not before
    assert len(ax.get_lines()) == 3


@pytest.mark.parametrize(
    "draw", [lambda: FrontierDisplay.from_frontier(made_up()), lambda: plot_shape(MODEL, 0)]
)
def test_missing_matplotlib_is_named(monkeypatch, draw):
    def without(name, *args, **kwargs):
        if name.startswith("matplotlib"):
            raise ModuleNotFoundError("No module named 'matplotlib'")
        return original(name, *args, **kwargs)

    original = builtins.__import__
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ModuleNotFoundError, match=r'pip install "totalqboost\[cli\]"'):
        draw()


# -- the table of a frontier -------------------------------------------------------------


def test_the_frontier_prints_as_a_table():
    lines = frontier_text(made_up()).splitlines()
    assert lines[0] == "Frontier: 4 ensembles of 0 to 4 weak classifiers"
    cells = re.split(r"  +", lines[3].strip())
    assert cells == ["1", "0.30000", "15.0", "20.0 ± 2.0", "0.350 ± 0.030", "0.750 ± 0.010", "0.1"]
    assert len({len(line) for line in lines[3:]}) == 1  # columns are aligned


def test_what_was_not_measured_has_no_column():
    text = frontier_text(made_up(**TRAINING_ONLY))
    assert "training error (%)" in text
    assert "validation" not in text
    assert "AUC" not in text
    assert "nan" not in text


def test_the_frontier_is_a_table_in_a_notebook():
    page = frontier_html(made_up())
    assert page.count("<tr>") == 5
    assert "20.0 ± 2.0" in page
    assert "nan" not in page


def test_a_frontier_without_points_is_a_title():
    assert frontier_text(Front([])) == "Frontier: 0 ensembles"


# -- shapes ------------------------------------------------------------------------------

MODEL = Ensemble(
    (Stump(1, 2.0), Stump(0, 5.0), Stump(1, 1.0, -1), Constant(1), Stump(1, 2.0)),
    (0.7, 9.0, 0.4, 0.3, 0.1),
    0.2,
    ("no", "yes"),
    ("age", "dose", "unused"),
    "logistic",
)
X = np.random.default_rng(0).uniform(0.0, 4.0, size=(60, 3))


def steps(ax):
    values, edges, _ = ax.patches[0].get_data()
    return values, edges


def rug(ax):
    return ax.get_lines()[-1].get_xdata()


@pytest.mark.parametrize("feature", ["dose", 1, np.int64(1)])
def test_the_curve_is_the_sum_of_the_stumps_of_the_feature(feature):
    ax = plot_shape(MODEL, feature)
    values, edges = steps(ax)
    np.testing.assert_allclose(values, [0.4 - 0.8, -0.4 - 0.8, -0.4 + 0.8])
    np.testing.assert_array_equal(edges[1:-1], [1.0, 2.0])
    assert edges[0] < 1.0 < 2.0 < edges[-1]
    assert ax.get_xlabel() == "dose"
    assert ax.get_ylabel() == "contribution to the log-odds of 'yes'"


@pytest.mark.parametrize("name", ["age", "dose", "unused"])
def test_with_rows_heights_are_shap_values(name):
    j = MODEL.feature_names.index(name)
    ax = plot_shape(
        MODEL, name, pd.DataFrame(X, columns=MODEL.feature_names)[["unused", "dose", "age"]]
    )
    values, edges = steps(ax)
    heights = values[np.searchsorted(edges, X[:, j], side="left").clip(1, len(values)) - 1]
    shap = MODEL.explain(X, X).feature_contributions[:, j]
    np.testing.assert_allclose(heights, shap, atol=1e-12)
    np.testing.assert_array_equal(rug(ax), np.sort(X[:, j]))
    assert edges[0] <= X[:, j].min() <= X[:, j].max() <= edges[-1]


def test_a_value_at_a_cut_belongs_to_the_left():
    at_cut = np.array([[0.0, 2.0, 0.0]])
    values, _ = steps(plot_shape(MODEL, "dose", at_cut))
    assert values[1] == 0.0  # the only row is its own mean
    assert values[2] > 0.0


def test_all_shapes_add_up_to_the_score():
    row = np.array([[4.0, 1.5, 0.0]])
    total = MODEL.intercept + 0.3
    for j in range(3):
        values, edges = steps(plot_shape(MODEL, j, unit="score"))
        total += values[np.searchsorted(edges[1:-1], row[0, j])]
    assert total == pytest.approx(MODEL.decision_function(row)[0])


@pytest.mark.parametrize(
    ("loss", "unit", "factor", "quantity"),
    [
        ("logistic", None, 1.0, "log-odds"),
        ("exponential", None, 2.0, "log-odds"),
        ("exponential", "score", 1.0, "score"),
        ("squared", None, 1.0, "score"),
        ("squareplus", None, 1.0, "score"),
    ],
)
def test_units_follow_from_the_loss(loss, unit, factor, quantity):
    ax = plot_shape(replace(MODEL, loss=loss), "dose", unit=unit)
    np.testing.assert_allclose(steps(ax)[0][-1], factor * 0.4)
    assert f"the {quantity} of" in ax.get_ylabel()


def test_exponential_log_odds_are_those_of_the_probabilities():
    model = replace(MODEL, loss="exponential")
    rows = np.array([[0.0, 0.5, 0.0], [0.0, 3.0, 0.0]])
    p = model.predict_proba(rows)[:, 1]
    log_odds = np.log(p / (1 - p))
    values, _ = steps(plot_shape(model, "dose"))
    assert values[-1] - values[0] == pytest.approx(log_odds[1] - log_odds[0])


def test_a_feature_without_stumps_is_flat():
    for rows in (None, X):
        values, edges = steps(plot_shape(MODEL, "unused", rows))
        np.testing.assert_array_equal(values, [0.0])
        assert edges[0] < edges[1]


def test_a_column_of_one_value_is_drawn():
    rows = X.copy()
    rows[:, 2] = 7.0
    _, edges = steps(plot_shape(MODEL, "unused", rows))
    assert edges[0] < 7.0 < edges[1]


def test_a_rug_of_many_rows_is_thinned_but_keeps_its_ends():
    many = np.random.default_rng(1).normal(size=(3000, 3))
    ticks = rug(plot_shape(MODEL, "dose", many))
    assert len(ticks) == 500
    assert (ticks[0], ticks[-1]) == (many[:, 1].min(), many[:, 1].max())


def test_a_fitted_classifier_is_a_model_too():
    ax = plt.figure().add_subplot()
    assert plot_shape(SimpleNamespace(ensemble_=MODEL), "dose", ax=ax) is ax
    np.testing.assert_allclose(steps(ax)[0][-1], 0.4)


def test_dollars_in_names_are_dollars():
    broken = "$_{$"  # as mathematics it is an error
    model = replace(MODEL, features=("a", broken, "c"), classes=("no", broken))
    ax = plot_shape(model, 1)
    ax.figure.canvas.draw()  # where matplotlib would read it
    assert ax.get_xlabel() == broken
    assert broken in ax.get_ylabel()


@pytest.mark.parametrize(
    ("change", "arguments", "error", "message"),
    [
        (
            {},
            {"feature": "size"},
            ValueError,
            r"\['age', 'dose', 'unused'\], got 'size', which is no",
        ),
        ({}, {"feature": 3}, ValueError, "a number from 0 to 2, got 3"),
        ({}, {"feature": -1}, ValueError, "a number from 0 to 2, got -1"),
        ({"features": ()}, {"feature": -1}, ValueError, "a number from 0 on, got -1"),
        ({}, {"feature": 1.0}, TypeError, "integer"),
        ({"features": ("a", "a", "b")}, {"feature": "a"}, ValueError, "several, use a number"),
        (
            {"loss": "squared"},
            {"feature": 0, "unit": "log-odds"},
            ValueError,
            "got 'log-odds' with",
        ),
        ({}, {"feature": 0, "unit": "odds"}, ValueError, "unit must be 'score' or"),
        ({}, {"feature": 0, "X": X[:0]}, ValueError, "X must have at least one row"),
        ({}, {"feature": 0, "X": X[:, :2]}, ValueError, "X must have 3 columns"),
        (
            {"learners": (Fitted(0, None),), "weights": (1.0,)},
            {"feature": 0},
            TypeError,
            "a Fitted",
        ),
    ],
)
def test_bad_arguments_are_named(change, arguments, error, message):
    with pytest.raises(error, match=message):
        plot_shape(replace(MODEL, **change), **arguments)


def test_what_is_no_model_is_named():
    with pytest.raises(TypeError, match="an Ensemble or a fitted classifier, got a list"):
        plot_shape([], 0)


# -- gaps, categories, many classes ------------------------------------------------------


def bars(ax):
    """Heights by name of the category, in the order of the classes."""
    names = [text.get_text() for text in ax.get_yticklabels()]
    return names, [[bar.get_width() for bar in group] for group in ax.containers]


def test_a_missing_value_has_a_mark_of_its_own_height():
    model, frame = mixed_ensemble(1), mixed_frame(1)
    ax = plot_shape(model, "age", frame)
    mark = next(line for line in ax.get_lines() if line.get_marker() == "D")
    shap = model.explain(frame, frame).feature_contributions[:, 0]
    is_gap = frame["age"].isna()
    np.testing.assert_allclose(mark.get_ydata(), shap[is_gap].max(), atol=1e-12)
    assert mark.get_xdata()[0] > np.nanmax(frame["age"])
    assert "missing" in [text.get_text() for text in ax.texts]
    values, edges = steps(ax)
    ages = frame["age"][~is_gap]
    heights = values[np.searchsorted(edges, ages).clip(1, len(values)) - 1]
    np.testing.assert_allclose(heights, shap[~is_gap], atol=1e-12)
    np.testing.assert_array_equal(rug(ax), np.sort(ages))


def test_without_gaps_there_is_no_mark():
    for ax in (plot_shape(MODEL, "dose"), plot_shape(MODEL, "dose", X)):
        assert not [line for line in ax.get_lines() if line.get_marker() == "D"]
    rows = X.copy()
    rows[0, 1] = np.nan  # missing for the first time
    assert [
        line for line in plot_shape(MODEL, "dose", rows).get_lines() if line.get_marker() == "D"
    ]


def test_categories_are_bars_by_label():
    model, frame = mixed_ensemble(1), mixed_frame(1)
    names, (heights,) = bars(plot_shape(model, "city"))
    assert names == ["Basel", "Bern", "Genf", "Zug", "missing"]
    np.testing.assert_allclose(heights, shape_of(model, 1).levels[:, 0])
    assert np.ptp(heights) > 0.1
    ax = plot_shape(model, "city", frame)
    counts = frame["city"].value_counts(dropna=False)
    names, (heights,) = bars(ax)
    assert names[0] == f"Basel ({counts['Basel']})"
    assert names[-1] == f"missing ({frame['city'].isna().sum()})"
    shap = model.explain(frame, frame).feature_contributions[:, 1]
    np.testing.assert_allclose(heights[0], shap[frame["city"] == "Basel"][0], atol=1e-12)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("contribution to the log-odds of 'yes'", "city")
    assert [bool(bar.get_hatch()) for bar in ax.containers[0]] == [False] * 4 + [True]


def test_many_classes_have_a_curve_each():
    model, frame = mixed_ensemble(2, 3), mixed_frame(2)
    ax = plot_shape(model, "age", frame)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["'a'", "'b'", "'c'"]
    assert ax.get_ylabel() == "contribution to the score"
    shape = shape_of(model, 0).centred(frame["age"].to_numpy())
    for c, patch in enumerate(ax.patches):
        np.testing.assert_allclose(patch.get_data().values, shape.levels[:, c])
    marks = [line.get_ydata()[0] for line in ax.get_lines() if line.get_marker() == "D"]
    np.testing.assert_allclose(marks, shape.other)
    assert len(bars(plot_shape(model, "city"))[1]) == 3


def test_one_of_many_classes_can_be_asked_for():
    model = mixed_ensemble(2, 3)
    ax = plot_shape(model, "age", label="b")
    np.testing.assert_allclose(steps(ax)[0], shape_of(model, 0).levels[:, 1])
    assert ax.get_legend() is None
    assert ax.get_ylabel() == "contribution to the score of 'b'"
    with pytest.raises(ValueError, match=r"one of \('a', 'b', 'c'\) or None, got 'd'"):
        plot_shape(model, "age", label="d")
    with pytest.raises(ValueError, match="got 'log-odds' with 'multinomial'"):
        plot_shape(model, "age", unit="log-odds")


def test_the_first_of_two_classes_is_drawn_upside_down():
    second, first = plot_shape(MODEL, "dose"), plot_shape(MODEL, "dose", label="no")
    np.testing.assert_allclose(steps(first)[0], -steps(second)[0])
    assert first.get_ylabel().endswith("of 'no'")


def test_a_column_that_no_learner_reads_is_drawn_too():
    model, frame = mixed_ensemble(1), mixed_frame(1).assign(unused=3.5)
    values, _ = steps(plot_shape(model, "unused", frame))
    np.testing.assert_array_equal(values, [0.0])


# -- rounds --------------------------------------------------------------------------------


def test_rounds_are_drawn_with_their_gap_and_the_price_of_what_is_kept():
    X, y = make_ringnorm(150, seed=0)
    clf = TotalQBoostClassifier(0.01, exchange=False, max_rounds=12).fit(X, y)
    ax = plot_trace(clf)
    primal, dual, gap, price = (line.get_ydata() for line in ax.lines)
    assert np.allclose(primal - dual, gap)
    assert (gap >= price - 1e-12).all()
    assert price.tolist() == [0.01 * r.cardinality for r in clf.trace_]
    plt.close(ax.figure)
    X3, y3 = load_iris(return_X_y=True)
    clf = TotalQBoostClassifier(0.01, exchange=False, max_rounds=10).fit(X3, y3)
    ax = plot_trace(clf)
    *_, gap, price = (line.get_ydata() for line in ax.lines)
    assert (gap >= price - 1e-9).all()
    plt.close(ax.figure)
    clf = TotalQBoostClassifier(0.01, max_learners=3).fit(X, y)
    with pytest.raises(ValueError, match="fitted must have rounds of Algorithm 1"):
        plot_trace(clf)
    clf = TotalQBoostClassifier(0, exchange=False, l1_penalty=10.0).fit(X, y)
    with pytest.raises(ValueError, match="no weak classifier was worth l1_penalty=10; lower it"):
        plot_trace(clf)
