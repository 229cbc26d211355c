"""What docs/extend.md tells people to write keeps the contracts of what the library has."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from solver_contract import SolverContract
from test_losses import MARGINS

PAGE = Path(__file__).parents[1] / "docs" / "extend.md"
PARTS = ("Squareplus", "Ball", "Interval", "Intervals", "Forward")


def written(name):
    """Return a class of the page, with the blocks that define it and those before it."""
    namespace = {"__name__": "__main__"}
    exec("import numpy as np\nfrom totalqboost.refit import refit", namespace)
    for block in re.findall(r"^```python\n(.*?)^```$", PAGE.read_text("utf-8"), re.M | re.S):
        if ">>> " not in block and "class " in block:
            exec(compile(block, str(PAGE), "exec", dont_inherit=True), namespace)
    return namespace[name]


@pytest.fixture
def solver():
    return written("Forward")()


class TestForward(SolverContract):
    """The solver of the page."""


def test_the_loss_of_the_page_is_convex_and_has_its_slope_and_conjugate():
    loss = written("Squareplus")()
    z = MARGINS
    u = loss.weight(z)
    slope = (loss.value(z + 1e-6) - loss.value(z - 1e-6)) / 2e-6
    curvature = -(loss.weight(z + 1e-6) - loss.weight(z - 1e-6)) / 2e-6
    np.testing.assert_allclose(-u, slope, atol=1e-8)
    np.testing.assert_allclose(loss.curvature(z), curvature, atol=1e-8)
    np.testing.assert_allclose(loss.conjugate(u), -u * z - loss.value(z), atol=1e-12)
    assert np.isinf(loss.conjugate(np.array([-0.01, 1.01]))).all()


@pytest.mark.parametrize("seed", range(5))
def test_the_intervals_of_the_page_are_the_best_also_among_equal_values(seed):
    rng = np.random.default_rng(seed)
    X, y = rng.integers(0, 7, size=(30, 2)).astype(float), rng.choice([-1, 1], size=30)
    u = rng.random(30)
    interval, oracle = written("Interval"), written("Intervals")().prepare(X, y)
    ends = np.arange(-1.5, 8.0)
    every = [
        interval(f, a, b, sign) for f in (0, 1) for a in ends for b in ends if a < b
        for sign in (1, -1)
    ]  # fmt: skip
    largest = max((u * y * h.predict(X)).sum() for h in every)
    assert oracle.best(u)[0].edge == pytest.approx(largest)


def test_the_page_has_all_parts():
    for name in PARTS:
        assert written(name).__name__ == name
