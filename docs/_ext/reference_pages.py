"""Write the pages of the reference: one for each public name, found in ``__all__``.

The pages go to ``docs/reference``, which git ignores. A name that is in several modules has one
page, under the first of them.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

# In the order of the reference; the modules that a user imports from.
MODULES = {
    "totalqboost": "Train, read, keep",
    "totalqboost.datasets": "Data to try things on",
    "totalqboost.export": "Take a model elsewhere",
    "totalqboost.plots": "Pictures",
    "totalqboost.losses": "Losses",
    "totalqboost.dictionaries": "Where weak classifiers come from",
    "totalqboost.learners": "Weak classifiers",
    "totalqboost.solvers": "What solves a round",
    "totalqboost.solvers.ocean": "Samplers of D-Wave's Ocean as solvers",
    "totalqboost.solving": "What a solver is",
    "totalqboost.cluster": "Many machines",
}
# What attributes of results hold, and a few names that pages mention.
RESULTS = (
    "totalqboost.frontier.FrontierPoint",
    "totalqboost.frontier.CrossValidation",
    "totalqboost.ensemble.Points",
    "totalqboost.ensemble.Shape",
    "totalqboost.ensemble.Training",
    "totalqboost.cascade.Stage",
    "totalqboost.cascade.Guarantee",
    "totalqboost.cascade.Certificate",
    "totalqboost.boosting.BoostingResult",
    "totalqboost.boosting.Round",
    "totalqboost.boosting.Searched",
    "totalqboost.boosting.FoldDone",
    "totalqboost.branch_price.PriceProgress",
    "totalqboost.solvers.ocean.search.SamplerSolver",
    "totalqboost.refit.refit",
)


class Name(NamedTuple):
    module: str
    name: str
    value: Any

    @property
    def path(self) -> str:
        return f"{self.module}.{self.name}"


def public_names() -> Iterator[Name]:
    """Yield every public name that is not a module, under the first module that has it."""
    seen: set[int] = set()
    for module in MODULES:
        loaded = importlib.import_module(module)
        for name in loaded.__all__:
            value = getattr(loaded, name)
            if not inspect.ismodule(value) and id(value) not in seen:
                seen.add(id(value))
                yield Name(module, name, value)
    for path in RESULTS:
        module, name = path.rsplit(".", 1)
        yield Name(module, name, getattr(importlib.import_module(module), name))


def aliases() -> dict[str, str]:
    """Return where the names of classes in the types of parameters lead."""
    return {name.name: name.path for name in public_names() if inspect.isclass(name.value)}


def page_of(title: str, introduction: str, names: list[Name]) -> str:
    listed = "\n".join(f"   ~{name.path}" for name in names)
    return (
        f"{title}\n{'=' * len(title)}\n\n{introduction}\n\n"
        f".. autosummary::\n   :toctree: names\n   :nosignatures:\n\n{listed}\n"
    )


def write_pages(app: Any) -> None:
    folder = Path(app.srcdir) / "reference"
    folder.mkdir(exist_ok=True)
    names = list(public_names())
    wanted = {*MODULES, "results", "cli", *(name.path for name in names)}
    for path in [*folder.glob("*.rst"), *folder.glob("names/*.rst")]:
        if path.stem not in wanted:
            path.unlink()  # of a name that is gone
    for module, title in MODULES.items():
        summary = inspect.getdoc(importlib.import_module(module)) or ""
        first = summary.split("\n\n")[0]
        body = page_of(
            f"{module}: {title[0].lower()}{title[1:]}",
            first,
            [name for name in names if name.module == module],
        )
        write_if_changed(folder / f"{module}.rst", body)
    results = [name for name in names if name.path in RESULTS]
    body = page_of(
        "What results hold", "Values of attributes, and names that pages mention.", results
    )
    write_if_changed(folder / "results.rst", body)


def write_if_changed(path: Path, text: str) -> None:
    """Leave a page alone that is as it should be, so that Sphinx does not read it again."""
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def setup(app: Any) -> dict[str, Any]:
    write_pages(app)  # at once: Sphinx looks for its sources before the first event
    return {"parallel_read_safe": True}
