"""What a user installs: the wheel and the source archive, built, looked into and run.

The archive is built from the repository and the wheel from the archive, so that the archive is
complete. The wheel is installed into an empty folder, which comes before the repository.
"""

from __future__ import annotations

import email
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "totalqboost"
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
# Left by Python and by Numba, or by a system.
LEFTOVERS = {"__pycache__", ".DS_Store"}

SMOKE = """
import sys
import totalqboost
from totalqboost import Ensemble, TotalQBoostClassifier, datasets, export

assert totalqboost.__file__.startswith(sys.argv[1]), totalqboost.__file__
assert len([datasets.load(name) for name in datasets.names()]) == 12
X, y = datasets.load("thyroid")
model = TotalQBoostClassifier(max_learners=2).fit(X, y).ensemble_
model.save("model.json")
assert (Ensemble.load("model.json").predict(X) == y).mean() > 0.8
assert export.ensemble_schema()["title"]
print(totalqboost.__version__)
"""

PROGRAM = """
from typing import Any
from numpy.typing import NDArray
from totalqboost import Ensemble, TotalQBoostClassifier, datasets, export, frontier
from totalqboost.solvers import BQMSolver, LocalSearch

X, y = datasets.load("thyroid")
classifier = TotalQBoostClassifier(max_learners=3, solver=LocalSearch()).fit(X, y)
model: Ensemble = classifier.ensemble_
labels: NDArray[Any] = model.predict(X)
front = frontier(X, y, max_learners=4)
print(BQMSolver, labels.mean(), front[2].ensemble, export.to_c(model), classifier.n_learners_ + 1)
"""
MISTAKES = {
    "a name that is not there": ("import Ensemble,", "import Ensembel,"),
    "a label for an array": ("labels: NDArray[Any]", "labels: str"),
    "a solver that is not there": ("BQMSolver, LocalSearch", "BQMSolver, Annealer"),
    "an unknown setting": ("max_learners=3", "max_learner=3"),
    "a name for a number": ("max_learners=4", "max_learners='four'"),
    "an export that is not there": ("export.to_c(model)", "export.to_fortran(model)"),
}


def run(*command: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *command],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A folder with the source archive and the wheel made of it."""
    folder = tmp_path_factory.mktemp("dist")
    done = run("-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT), cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def wheel(built):
    (path,) = built.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def archive(built):
    (path,) = built.glob("*.tar.gz")
    return path


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """A folder with the wheel and nothing else."""
    folder = tmp_path_factory.mktemp("installed")
    pip = ("-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(folder))
    done = run(*pip, str(wheel), cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def source_files() -> set[str]:
    """Every file of the package as it stands in the repository."""
    paths = [path for path in PACKAGE.rglob("*") if path.is_file()]
    own = [path.relative_to(PACKAGE.parent) for path in paths]
    return {path.as_posix() for path in own if not LEFTOVERS & set(path.parts)}


def test_the_wheel_is_the_package_and_nothing_else(wheel):
    with zipfile.ZipFile(wheel) as file:
        names = {name for name in file.namelist() if ".dist-info/" not in name}
    assert names == source_files()


@pytest.mark.parametrize(
    "name",
    [
        "py.typed",
        "cli/assets/frontier.html",
        "datasets/SOURCES.md",
        "datasets/data/german.csv.gz",
        "datasets/paper/paper_table.json",
        "experiments/report/assets/page.js",
        "export/ensemble.schema.json",
    ],
)
def test_the_wheel_has_what_is_not_code(wheel, name):
    with zipfile.ZipFile(wheel) as file:
        assert f"totalqboost/{name}" in file.namelist()


def test_the_wheel_says_what_it_is(wheel):
    with zipfile.ZipFile(wheel) as file:
        (metadata,) = [name for name in file.namelist() if name.endswith(".dist-info/METADATA")]
        (licence,) = [name for name in file.namelist() if name.endswith("/LICENSE")]
        content = email.message_from_bytes(file.read(metadata))
        assert file.read(licence) == (ROOT / "LICENSE").read_bytes()
    assert content["Version"] == VERSION
    needed = [line for line in content.get_all("Requires-Dist") if "extra ==" not in line]
    names = {re.split("[<>=]", line)[0] for line in needed}
    assert names == {"numpy", "scipy", "scikit-learn", "joblib", "numba"}


@pytest.mark.parametrize(
    "name",
    [
        "CHANGELOG.md",
        "CITATION.cff",
        "CODE_OF_CONDUCT.md",
        "CONTRIBUTING.md",
        "LICENSE",
        "README.md",
        "SECURITY.md",
        "benchmarks/results/startup.json",
        "benchmarks/startup.py",
        "docs/images/frontier.png",
        "docs/tutorial.md",
        "examples/cortex_m/main.c",
        "pyproject.toml",
        "tests/floor.txt",
        "tests/test_package.py",
        "tools/build_datasets.py",
    ],
)
def test_the_source_archive_has_what_tests_and_pages_need(archive, name):
    with tarfile.open(archive) as file:
        assert f"totalqboost-{VERSION}/{name}" in file.getnames()


def test_the_source_archive_has_nothing_that_was_made_by_running(archive):
    with tarfile.open(archive) as file:
        names = file.getnames()
    assert [
        name for name in names if "__pycache__" in name or name.endswith((".nbi", ".nbc"))
    ] == []
    assert [name for name in names if "/results/quick/" in name] == []


def test_what_is_installed_runs_outside_of_the_repository(installed, tmp_path):
    done = run("-c", SMOKE, str(installed), cwd=tmp_path, PYTHONPATH=str(installed))
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [VERSION]


def test_what_is_installed_has_a_command_line(installed, tmp_path):
    done = run("-m", "totalqboost", "--version", cwd=tmp_path, PYTHONPATH=str(installed))
    assert done.stdout == f"totalqboost {VERSION}\n", done.stderr


# -- types -------------------------------------------------------------------------------------


def typed(installed: Path, folder: Path, program: str) -> subprocess.CompletedProcess[str]:
    """Run mypy on a user's program; what it knows about the package stays for the next one."""
    (folder / "program.py").write_text(program, encoding="utf-8")
    options = (
        "--strict",
        "--cache-dir",
        str(installed.parent / "mypy"),
        "--config-file",
        os.devnull,
    )
    path = {"PYTHONPATH": str(installed), "MYPYPATH": ""}
    return run("-m", "mypy", *options, "program.py", cwd=folder, **path)


def test_a_users_program_passes_the_strictest_check_of_types(installed, tmp_path):
    done = typed(installed, tmp_path, PROGRAM)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_users_mistake_is_an_error_of_types(installed, tmp_path, mistake):
    right, wrong = MISTAKES[mistake]
    assert right in PROGRAM
    done = typed(installed, tmp_path, PROGRAM.replace(right, wrong))
    assert done.returncode == 1, done.stdout + done.stderr


# -- one version -------------------------------------------------------------------------------


def test_the_citation_is_of_this_version():
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.search(r"^version: (.+)$", text, re.MULTILINE)[1] == VERSION


def test_the_changelog_begins_with_what_comes_next_and_then_this_version():
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    titles = re.findall(r"^## \[(.+?)\]", text, re.MULTILINE)
    assert titles[:2] == ["Unreleased", VERSION]
