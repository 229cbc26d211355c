"""Integers for weights, and proofs of them, against all inputs one by one."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from export_inputs import numbers_of
from hypothesis import given, settings
from hypothesis import strategies as st

from totalqboost import Ensemble, Stump
from totalqboost.export.c.forms import Plan
from totalqboost.export.c.inputs import Float32, float_key
from totalqboost.export.c.vectors import twin_numbers
from totalqboost.export.c.weights import integer_weights
from totalqboost.export.model import exportable, sum_of
from totalqboost.learners import Both, CategorySet, Feature

COLUMNS = (Feature("a"), Feature("b", (0, 1, 2)), Feature("c"))
VALUES = ((-1.0, 0.5, 1.5, 2.5, np.nan), (-1.0, 0.0, 1.0, 2.0), (-1.0, 1.0, 3.0, np.nan))
ALL = np.array(list(product(*VALUES)))  # every answer that the learners below can give together
CONDITIONS = (
    Stump(0, 0.0),
    Stump(0, 1.0, -1, True),
    Stump(0, 2.0),
    CategorySet(1, (0, 2)),
    CategorySet(1, (1,), -1),
    Stump(2, 0.0, -1),
    Both(Stump(2, 2.0), CategorySet(1, (0,))),
)


def twin(model, made):
    scores = sum_of(exportable(model))
    return twin_numbers(Plan("m", Float32("m", COLUMNS, True), scores.terms, made, 32), ALL)


@st.composite
def models(draw):
    n_classes = draw(st.sampled_from([2, 3]))
    weights = st.floats(0.01, 1.0)
    if n_classes == 2:
        own = draw(st.tuples(*[weights] * 7))
        return Ensemble(CONDITIONS, own, draw(st.floats(-1, 1)), (0, 1), COLUMNS)
    own = draw(st.tuples(*[st.tuples(*[weights] * 3)] * 7))
    signed = [[(-1) ** (k + c) * w for c, w in enumerate(row)] for k, row in enumerate(own)]
    intercept = draw(st.tuples(*[st.floats(-1, 1)] * 3))
    return Ensemble(CONDITIONS, signed, intercept, (0, 1, 2), COLUMNS, "multinomial")


@settings(max_examples=150, deadline=None)
@given(models(), st.sampled_from([20, 100, 1000, 30000, 2**29]))
def test_a_proof_is_true_and_what_is_not_proved_is_false_or_a_tie(model, most):
    made = integer_weights(sum_of(exportable(model)), COLUMNS, most)
    low, high = made.extremes
    assert max(-low, high) <= most
    wrong = twin(model, made) != numbers_of(model, ALL)
    if made.proof.holds:
        assert not wrong.any()
    elif not made.proof.but_ties:
        # All sums were looked at: some label is wrong under this scale, or nearly tied.
        scores = model.scores(ALL)
        gaps = np.sort(scores.reshape(len(ALL), -1), axis=1)
        gap = np.abs(scores) if scores.ndim == 1 else gaps[:, -1] - gaps[:, -2]
        assert wrong.any() or gap.min() < 1e-12 or model.is_multiclass


@settings(max_examples=50, deadline=None)
@given(models())
def test_scores_are_as_near_as_promised(model):
    made = integer_weights(sum_of(exportable(model)), COLUMNS, 30000)
    scores = sum_of(exportable(model))
    holds = np.column_stack([term.condition.predict(ALL) > 0 for term in scores.terms])
    found = np.array(made.start) + holds @ np.array(made.jumps)
    off = np.abs(found - made.scale * model.scores(ALL).reshape(len(ALL), -1)).max()
    assert off <= made.error * (1 + 1e-9) + 1e-6


def test_weights_on_a_grid_become_its_integers():
    stumps = [Stump(j, 0.0) for j in range(3)]
    model = Ensemble(stumps, (0.3, 0.5, 0.2), 0.05, features=("a", "b", "c"))
    made = integer_weights(sum_of(exportable(model)), model.features, 30000)
    assert sorted(jump for (jump,) in made.jumps) == [2, 3, 5]
    assert made.proof.but_ties  # 0.3 + 0.2 - 0.5 is 0 up to rounding


def test_ties_of_exact_sums_are_proved():
    stumps = [Stump(j, 0.0) for j in range(3)]
    model = Ensemble(stumps, (0.75, 0.5, 0.25), 0.0, features=("a", "b", "c"))
    assert integer_weights(sum_of(exportable(model)), model.features, 30000).proof.holds


def test_independent_stumps_are_proved():
    rng = np.random.default_rng(0)
    stumps = [Stump(j, 0.0) for j in range(22)]
    model = Ensemble(stumps, rng.random(22) + 0.01, 0.1, features=[f"x{j}" for j in range(22)])
    scores = sum_of(exportable(model))
    assert integer_weights(scores, model.features, 2**29).proof.holds
    assert not integer_weights(scores, model.features, 1000).proof.but_ties


@pytest.mark.parametrize("first", [np.nan, -np.inf, -1e30, -1.0, -1e-45, 0.0, 1e-45, 1.0, 3e38])
def test_keys_ascend(first):
    order = [-np.inf, -1e30, -1.0, -1e-45, 0.0, 1e-45, 1.0, 3e38, np.inf]
    if np.isnan(first):
        assert float_key(first) < float_key(-np.inf)
        assert float_key(-first) < float_key(-np.inf)
        return
    assert float_key(first) < float_key(order[order.index(first) + 1])
