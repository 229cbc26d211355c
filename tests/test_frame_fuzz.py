"""Any table is fitted, and all ways to ask the model agree; or the column is named."""

from __future__ import annotations

import pandas as pd
import pytest
from frame_rules import RULES, fit_or_refusal, refusal_is_clear, strict
from frames import cases
from hypothesis import HealthCheck, given, settings

# How many tables of each form: a few of each here, thousands in benchmarks/frame_fuzz.py.
FORMS = {"frame": 25, "plain": 15, "objects": 15, "array": 20}
FORMS |= {"polars": 15, "arrow frame": 10, "arrow": 10}


@pytest.mark.parametrize("form", FORMS)
def test_any_table_is_fitted_or_its_column_named(form):
    @settings(max_examples=FORMS[form], suppress_health_check=list(HealthCheck))
    @given(cases([form]))
    def check(case):
        model, said = fit_or_refusal(case)
        if model is None:
            assert refusal_is_clear(said), said
            return
        for rule in RULES.values():
            with strict():
                rule(case, model)

    check()


ODD = {
    "inf": [1.0, float("inf")],
    "date": [pd.Timestamp("2020-01-01"), pd.Timestamp("2021-01-01")],
    "mixed": [1.0, "many"],
    "complex": [1j, 2.0],
    "list": [[1], [2, 3]],
    "huge": [10**400, 1],
}


@pytest.mark.parametrize("odd", ODD)
@settings(max_examples=8, suppress_health_check=list(HealthCheck))
@given(case=cases(["frame"]))
def test_what_is_no_column_is_refused_by_name(odd, case):
    n = len(case.X)
    case.X = case.X.set_axis([f"k{j}" for j in range(case.X.shape[1])], axis=1)
    dtype = object if odd == "huge" else None  # older pandas cannot guess a type for 10**400
    case.X["odd"] = pd.Series((ODD[odd] * n)[:n], index=case.X.index, dtype=dtype)
    for wish in ("categorical_features", "feature_costs", "monotonic_cst"):
        case.settings.pop(wish, None)
    model, said = fit_or_refusal(case)
    assert model is None
    assert "column 'odd'" in said or refusal_is_clear(said)
