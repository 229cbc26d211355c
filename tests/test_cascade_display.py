"""CascadeDisplay: the curves are those of the detector."""

from __future__ import annotations

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from sklearn.metrics import roc_curve

from totalqboost import CascadeClassifier, TotalQBoostClassifier
from totalqboost.datasets import make_rare_event
from totalqboost.plots import CascadeDisplay

mpl.use("Agg")


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="module", params=["soft", "stages"])
def detector(request):
    X, y = make_rare_event(3000, 0.2, 0, 8)
    base = TotalQBoostClassifier(max_learners=6, class_weight="balanced")
    sizes = (1, 2, 3)
    return CascadeClassifier(base, kind=request.param, stage_sizes=sizes, min_recall=0.9).fit(X, y)


def rows():
    return make_rare_event(2000, 0.2, 7, 8)


def test_the_point_and_the_cost_are_those_of_the_certificate(detector):
    X, y = rows()
    certificate = detector.certify(X, y)
    display = CascadeDisplay.from_estimator(detector, X, y)
    assert display.point == (certificate.false_positive_rate, 1 - certificate.recall)
    assert display.point_.get_xdata()[0] == certificate.false_positive_rate
    left = display.negatives_.get_ydata()
    assert left[0] == 1.0
    assert left[-1] == certificate.false_positive_rate
    assert sum(left[:-1]) == pytest.approx(certificate.mean_learners_evaluated)
    assert display.positives_.get_ydata()[-1] == certificate.recall
    assert (
        f"{certificate.mean_learners_evaluated:.1f} learners each" in display.negatives_.get_label()
    )


def test_the_curve_is_that_of_scikit_learn(detector):
    X, y = rows()
    display = CascadeDisplay.from_estimator(detector, X, y)
    is_soft = detector.kind == "soft"
    scores = detector.ensemble_.decision_function(X) if is_soft else detector.decision_function(X)
    false, found, thresholds = roc_curve(y, scores, drop_intermediate=False)
    seen = np.isfinite(thresholds) & (is_soft | (thresholds >= 0))
    np.testing.assert_allclose(display.false_positive_rates, false[seen])
    np.testing.assert_allclose(display.miss_rates, 1 - found[seen], atol=1e-12)


def test_it_draws_into_given_axes_with_a_name(detector):
    _, axes = plt.subplots(1, 2)
    display = CascadeDisplay.from_estimator(detector, *rows(), ax=axes, name="mine", color="C4")
    assert display.ax_ is axes[0]
    assert display.cost_ax_ is axes[1]
    assert display.line_.get_color() == "C4"
    assert display.line_.get_label().startswith("mine: ")


def test_wrong_use_is_named(detector):
    X, y = rows()
    with pytest.raises(TypeError, match="fitted CascadeClassifier, got a TotalQBoostClassifier"):
        CascadeDisplay.from_estimator(TotalQBoostClassifier(), X, y)
    with pytest.raises(ValueError, match="rows of both classes"):
        CascadeDisplay.from_estimator(detector, X[y > 0], y[y > 0])
