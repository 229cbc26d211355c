"""tests/floor.txt holds the oldest releases that pyproject.toml allows."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
REQUIREMENT = re.compile(r"([\w-]+)(?:\[[\w,]+\])?>=([\d.]+)")
# They need NumPy 2: not for the floor of the package itself.
NOT_IN_FLOOR = {"dwave-system"}
EXTRAS = ("cli", "report", "parquet", "export", "annealing", "dask", "dwave")


def declared() -> dict[str, str]:
    """Return the lower limits of the package and of the extras that a user can install."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *(line for name in EXTRAS for line in extras[name])]
    return dict(match.groups() for line in wanted if (match := REQUIREMENT.fullmatch(line)))


def constraints() -> dict[str, str]:
    """Return the pinned releases, without the star at the end."""
    lines = (ROOT / "tests" / "floor.txt").read_text(encoding="utf-8").splitlines()
    pins = [line.split("==") for line in lines if not line.startswith("#")]
    return {name: release.removesuffix(".*") for name, release in pins}


def test_every_lower_limit_is_pinned():
    assert set(declared()) - NOT_IN_FLOOR <= set(constraints())


def test_pins_are_the_lower_limits():
    pinned = constraints()
    limits = {name: limit for name, limit in declared().items() if name in pinned}
    assert limits == {name: pinned[name] for name in limits}
