"""Warnings name the user's line, from whatever depth they come."""

from __future__ import annotations

import runpy

import numpy as np
import pytest

from totalqboost import TotalQBoostClassifier
from totalqboost.solvers import TabuSearch

X = np.random.default_rng(0).normal(size=(60, 3))
Y = X[:, 0] + X[:, 1] > 0.1


def test_a_warning_of_a_solver_deep_in_a_fit_is_of_the_line_that_fits():
    solver = TabuSearch(n_bits="auto", tol=1e-12, max_evaluations=60)
    clf = TotalQBoostClassifier(0.01, solver=solver, exchange=False, max_rounds=6)
    with pytest.warns(RuntimeWarning, match="n_bits='auto' gives up") as caught:
        clf.fit(X, Y)
    assert {warning.filename for warning in caught} == {__file__}


def test_a_program_whose_name_begins_like_ours_is_outside(tmp_path):
    neighbour = tmp_path / "totalqboost_neighbour.py"
    neighbour.write_text("from totalqboost.notices import warn\nwarn('Here')\n")
    with pytest.warns(UserWarning, match="Here") as caught:
        runpy.run_path(str(neighbour))
    assert caught[0].filename == str(neighbour)
