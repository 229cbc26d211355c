"""``totalqboost solve``: what it prints and writes, and what it says about bad input."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import PROGRAM, error_of, interrupted, run

from totalqboost import (
    Interrupted,
    MasterProblem,
    Solution,
    Status,
    TotalQBoostClassifier,
    load_problem,
    save_problem,
)
from totalqboost import solvers as all_solvers
from totalqboost.cli import solve as command
from totalqboost.solving import MasterSolver

PAGE = Path(__file__).parents[2] / "docs" / "problems.md"


@pytest.fixture(autouse=True)
def problem(tmp_path, monkeypatch) -> MasterProblem:
    """An empty working directory with problem.json in it."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    A = np.where(rng.random((10, 80)) < 0.6, 1, -1)
    problem = MasterProblem(A, nu=1e-3, lam=0.01, cost=[0.0, 0.0, *[1.0] * 8])
    save_problem("problem.json", problem)
    return problem


@dataclass(frozen=True)
class Tree(MasterSolver):
    """Stands for a solver with limits, bound and progress; it keeps nothing."""

    max_nodes: int = 100
    time_limit: float | None = None
    gap: float = 0.0
    status: Status = Status.OPTIMAL
    on_progress: Any = None

    def __post_init__(self) -> None:
        if self.max_nodes > 1000:
            raise ValueError(f"max_nodes must be <= 1000, got {self.max_nodes}")

    def solve(self, problem, start=None, rng=None):
        if problem.loss.name == "squared":
            raise ValueError("loss must be exponential, got squared")
        empty = np.zeros(problem.n_columns)
        value = problem.objective(empty)
        if self.on_progress is not None:
            self.on_progress(f"{self.max_nodes} nodes")
        return Solution(empty, value, value * (1 - self.gap), self.max_nodes, self.status)


@pytest.fixture
def tree(monkeypatch):
    """The name ``tree`` for a solver with all options."""
    monkeypatch.setitem(all_solvers._SOLVERS, "tree", Tree)
    return monkeypatch


# -- answers -------------------------------------------------------------------------------


def test_answer_is_the_solvers(problem):
    result = run("solve", "problem.json", "--json", "--seed", 3)
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    content = json.loads(result.stdout)
    assert content["format"] == "totalqboost-solutions"
    assert (content["schema_version"], content["seed"]) == (1, 3)
    (answer,) = content["solutions"]
    solution = all_solvers.get("local").solve(problem, rng=np.random.default_rng(3))
    assert answer["w"] == solution.w.tolist()
    assert answer["objective"] == problem.objective(np.array(answer["w"]))
    assert answer["cardinality"] == problem.cardinality(solution.w)
    assert answer["n_evaluations"] == solution.n_evaluations
    assert answer["bound"] is answer["gap"] is None
    assert answer["seconds"] > 0


def test_tables_show_what_the_file_holds(problem):
    shown = run("solve", "problem.json", "--out", "s.json")
    (answer,) = json.loads(Path("s.json").read_text())["solutions"]
    w = np.array(answer["w"])
    facts = dict(re.split(r"\s{2,}", line.strip(), maxsplit=1) for line in lines(shown.stdout, 1))
    assert float(facts["objective"]) == pytest.approx(answer["objective"], rel=1e-8)
    assert facts["cardinality"] == str(answer["cardinality"])
    assert facts["bound"] == facts["gap"] == "none"
    assert facts["status"] == "local optimum"
    cells = [row.split("│") for row in shown.stdout.splitlines() if row.count("│") == 4]
    kept = {int(row[1]): (float(row[2]), row[3].strip()) for row in cells}
    assert sorted(kept) == np.flatnonzero(w).tolist()
    assert list(kept) == sorted(kept, key=lambda j: -w[j])
    for j, (weight, cost) in kept.items():
        assert weight == pytest.approx(w[j], rel=1e-5)
        assert cost == ("1" if problem.cost[j] else "free")
    assert "Saved in s.json." in shown.stdout
    assert "10 columns, 80 rows, exponential loss, nu 0.001, lam 0.01." in shown.stdout


def lines(text: str, first: int) -> list[str]:
    """Return the lines of facts: from this one to the first table."""
    return text.splitlines()[first:9]


def test_fees_and_features_are_shown(problem):
    reads = np.arange(10)[:, None] % 3 == np.arange(3)
    reads[:2] = False
    fee = np.where(np.arange(10) == 5, 0.002, 0.0)
    given = {"reads": reads, "feature_price": [0.01, 0.0, 0.02], "max_features": 2}
    save_problem("features.json", replace(problem, fee=fee, **given))
    shown = run("solve", "features.json", "--out", "s.json")
    assert shown.exit_code == 0, shown.output
    (answer,) = json.loads(Path("s.json").read_text())["solutions"]
    kept = np.flatnonzero(answer["w"])
    n_read = int(reads[kept].any(axis=0).sum())
    assert answer["n_features"] == n_read <= 2
    assert "lam 0.01, at most 2 features read." in shown.stdout
    assert re.search(rf"^features +{n_read} *$", shown.stdout, re.MULTILINE)
    cells = [row.split("│") for row in shown.stdout.splitlines() if row.count("│") == 6]
    assert sorted(int(row[1]) for row in cells) == kept.tolist()
    for row in cells:
        j = int(row[1])
        assert float(row[4]) == fee[j]
        assert row[5].strip() == (str(j % 3) if j >= 2 else "")


def test_several_solvers_are_compared(tree):
    shown = run("solve", "problem.json", "--solver", "tree, local,tabu,tree", "--n-bits", 3)
    assert shown.exit_code == 0, shown.output
    assert max(map(len, shown.stdout.splitlines())) <= 80
    cells = [row.split("│") for row in shown.stdout.splitlines() if row.count("│") == 9]
    assert [row[1].strip() for row in cells] == ["tree", "local", "tabu"]
    objective = [float(row[2]) for row in cells]
    assert cells[int(np.argmin(objective))][3].strip() == "0"
    assert cells[0][3].strip().endswith(" %")
    assert [row[5].strip() for row in cells] == ["0", "none", "none"]


def test_the_same_command_gives_the_same_answer():
    for name in ("one.json", "two.json"):
        run("solve", "problem.json", "--solver", "local,tabu", "--out", name, "--n-bits", "auto")
    contents = [json.loads(Path(name).read_text()) for name in ("one.json", "two.json")]
    for content in contents:
        for answer in content["solutions"]:
            del answer["seconds"]
    assert contents[0] == contents[1]


def test_several_starts_spend_a_budget_each_whatever_the_jobs(tree):
    command = "solve", "problem.json", "--solver", "tabu", "--json", "--starts", "3"
    told = [json.loads(run(*command, "--jobs", jobs).stdout) for jobs in (1, 2)]
    one, two = (content["solutions"][0] for content in told)
    assert one["n_evaluations"] == 3 * all_solvers.TabuSearch().max_evaluations
    assert one["w"] == two["w"]


def test_problem_without_columns_is_solved():
    save_problem("empty.npz", MasterProblem(np.ones((0, 3))))
    shown = run("solve", "empty.npz", "--solver", "local,tabu")
    assert shown.exit_code == 0, shown.output
    assert "0 columns kept" in shown.stdout


def test_problem_of_a_fit_can_be_solved_again():
    """What docs/problems.md says about the last problem of a fit."""
    from totalqboost import datasets

    X, y = datasets.load("thyroid")
    clf = TotalQBoostClassifier(0.01, max_rounds=15).fit(X, y)
    sign = np.where(y == clf.classes_[1], 1, -1)
    A = np.array([sign * learner.predict(X) for learner in clf.result_.learners])
    cost = [0, 0, *[1] * (len(A) - 2)]
    problem = MasterProblem(A, clf.l1_penalty_, 0.01, cost, loss=clf.loss_)
    save_problem("fit.npz", problem)
    (answer,) = json.loads(run("solve", "fit.npz", "--json").stdout)["solutions"]
    assert answer["objective"] <= clf.solution_.objective + 1e-9
    assert problem.objective(clf.solution_.w) == pytest.approx(clf.solution_.objective, rel=1e-12)


def test_commands_of_the_page_run():
    text = PAGE.read_text(encoding="utf-8")
    example = re.search(r"^```json\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)[1]
    Path("problem.json").write_text(example)
    commands = re.search(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)[1].splitlines()
    assert len(commands) == 2
    for line in commands:
        result = run(*shlex.split(line)[1:])
        assert result.exit_code == 0, result.output
        assert "0.87202" in result.stdout  # to nine digits, or to six
    fields = json.loads(Path("solution.json").read_text())["solutions"][0]
    named = set(re.findall(r"`(\w+)`", text[text.index("## The result") :]))
    assert set(fields) <= named


def test_exact_solver_proves_what_the_others_found(problem):
    options = ("--solver", "exact,local,tabu", "--time-limit", 60, "--json")
    result = run("solve", "problem.json", *options)
    assert result.exit_code == 0, result.output
    exact, *others = json.loads(result.stdout)["solutions"]
    assert exact["status"] == "optimal"
    assert 0 <= exact["gap"] < 1e-6
    for answer in others:
        assert answer["objective"] >= exact["bound"]


# -- limits and progress -------------------------------------------------------------------


def test_limits_reach_the_solvers_that_know_them(tree):
    options = ("--solver", "local,tree", "--max-nodes", 7, "--gap", 0.25, "--time-limit", 9)
    answers = json.loads(run("solve", "problem.json", "--json", *options).stdout)["solutions"]
    assert answers[0]["gap"] is None
    assert answers[1]["n_evaluations"] == 7
    assert answers[1]["gap"] == pytest.approx(0.25)


def test_progress_is_told_while_it_runs(tree):
    said = []

    class Line:
        def __enter__(self):
            return said.append

        def __exit__(self, *error):
            return None

    tree.setattr(command, "live_line", lambda text, after: Line())
    run("solve", "problem.json", "--solver", "tree", "--max-nodes", 7)
    assert said == ["tree: 7 nodes"]


# -- bad input -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("none.json",), "cannot read none.json: no such file or directory"),
        (("folder",), "cannot read folder: is a directory"),
        ((), "PROBLEM"),
        (("problem.json", "--solver", "magic"), "--solver must be one of "),
        (("problem.json", "--solver", "local,magic"), "got 'magic'"),
        (("problem.json", "--solver", ""), "got ''"),
        (("problem.json", "--seed", "-1"), "--seed"),
        (("problem.json", "--max-nodes", "0"), "--max-nodes"),
        (("problem.json", "--max-nodes", "5"), "--max-nodes is not known to local, it is known to"),
        (("problem.json", "--n-bits", "5"), "--n-bits is not known to local, it is known to "),
        (("problem.json", "--gap", "0.1"), "--gap is not known to local, it is known to exact"),
        (
            ("problem.json", "--solver", "exact", "--jobs", "0"),
            "--jobs must be a number of threads",
        ),
        (("problem.json", "--gap", "-1"), "--gap must be a number >= 0, got -1.0"),
        (("problem.json", "--gap", "nan"), "--gap must be a number >= 0, got nan"),
        (("problem.json", "--time-limit", "inf"), "--time-limit must be a number >= 0, got inf"),
        (("problem.json", "--n-bits", "many"), "--n-bits must be an integer >= 1 or auto, got 'm"),
        (("problem.json", "--n-bits", "0"), "--n-bits must be an integer >= 1 or auto, got '0'"),
        (
            ("problem.json", "--solver", "tabu", "--n-bits", "99"),
            "--solver tabu: n_bits must be 'auto' or an integer from 1 to 12, got 99",
        ),
        (
            ("problem.json", "--solver", "tree", "--max-nodes", "5000"),
            "--solver tree: max_nodes must be <= 1000, got 5000",
        ),
        (
            ("squared.json", "--solver", "tree"),
            "tree cannot solve squared.json: loss must be exponential, got squared",
        ),
        (("problem.json", "--out", "none/s.json"), "there is no folder none"),
        (("problem.json", "--out", "problem.json", "--overwrite"), "it is the input"),
        (("problem.json", "--out", "old.json"), "old.json exists already; add --overwrite"),
    ],
)
def test_bad_option_is_named(tree, problem, options, complaint):
    Path("old.json").write_text("precious")
    Path("folder").mkdir()
    save_problem("squared.json", MasterProblem(problem.A, loss="squared"))
    before = Path("problem.json").read_bytes()
    assert complaint in error_of("solve", *options)
    assert Path("old.json").read_text() == "precious"
    assert Path("problem.json").read_bytes() == before


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda text: text[:50], "problem.json: this can be read neither as JSON nor as NPZ"),
        (lambda text: text.replace('"lam"', '"lambda"'), "problem.json: 'lambda' is no field"),
        (lambda text: text.replace("version", "vers"), "schema_version must be 1"),
    ],
)
def test_damaged_problem_is_one_sentence(change, complaint):
    path = Path("problem.json")
    path.write_text(change(path.read_text()))
    assert complaint in error_of("solve", "problem.json", "--out", "s.json")
    assert not Path("s.json").exists()


def test_solver_whose_extra_is_missing_says_so(tree):
    def missing():
        raise ImportError('simulated annealing needs dimod; pip install "totalqboost[annealing]"')

    tree.setitem(all_solvers._SOLVERS, "annealing", missing)
    assert "totalqboost[annealing]" in error_of("solve", "problem.json", "--solver", "annealing")
    said = error_of("solve", "problem.json", "--gap", "0.1")
    assert "--gap is not known to local, it is known to " in said
    assert said.endswith("tree")


def test_overwrite_replaces_the_file():
    Path("old.json").write_text("old")
    assert run("solve", "problem.json", "--out", "old.json", "--overwrite").exit_code == 0
    assert json.loads(Path("old.json").read_text())["solutions"]


# -- interruptions -------------------------------------------------------------------------


def test_the_best_so_far_is_shown_and_saved(tree):
    tree.setattr(Tree, "solve", answer_interrupted)
    result = run("solve", "problem.json", "--solver", "local,tree,tabu", "--out", "s.json")
    assert result.exit_code == 130
    assert "only local, tree came to an answer" in result.stderr
    content = json.loads(Path("s.json").read_text())
    assert [answer["solver"] for answer in content["solutions"]] == ["local", "tree"]
    result = run("solve", "problem.json", "--solver", "tree")
    assert result.exit_code == 130
    assert "objective    1\n" in re.sub(" +\n", "\n", result.stdout)
    assert "the best that tree found" in result.stderr


def answer_interrupted(self, problem, start=None, rng=None):
    """Answer as a solver that Ctrl-C stops, but for the warm-up on a problem of its own."""
    w = np.zeros(problem.n_columns)
    solution = Solution(w, problem.objective(w), status=Status.OPTIMAL)
    if problem.n_columns != command.N_WARM:
        raise Interrupted(solution)
    return solution


# The program, with a sign that it is at work: after the warm-up, or at the first progress.
AFTER_WARM_UP = """
import pathlib, totalqboost.cli, totalqboost.cli.solve as solve
warm_up = solve._warm_up
solve._warm_up = lambda *args: (warm_up(*args), pathlib.Path("began").touch())
totalqboost.cli.main()
"""
AT_PROGRESS = """
import contextlib, pathlib, totalqboost.cli, totalqboost.cli.solve as solve
touch = lambda text: pathlib.Path("began").touch()
solve.live_line = lambda text, after: contextlib.nullcontext(touch)
totalqboost.cli.main()
"""


def interrupt_solver(code: str, name: str, n_columns: int, n_rows: int) -> tuple[int, str, str]:
    """Send a real SIGINT to a solver that has seconds or hours of work before it."""
    rng = np.random.default_rng(0)
    A = np.where(rng.random((n_columns, n_rows)) < 0.55, 1, -1)
    save_problem("large.npz", MasterProblem(A, nu=1e-4, lam=1e-3))
    options = ["large.npz", "--solver", name, "--out", "s.json"]
    return interrupted([sys.executable, "-c", code, "solve", *options], Path("began").exists)


def test_real_ctrl_c_shows_what_tabu_search_has():
    status, out, err = interrupt_solver(AFTER_WARM_UP, "tabu", 100, 60_000)
    assert status == 130, err
    if Path("s.json").exists():  # it had found something
        assert err.endswith("Interrupted; this is the best that tabu found until then.\n")
        (answer,) = json.loads(Path("s.json").read_text())["solutions"]
        assert answer["status"] == "interrupted"
    else:
        assert out == ""
        assert err.endswith("Interrupted; tabu has no answer before its end.\n")


def test_real_ctrl_c_shows_the_best_so_far_of_the_exact_solver():
    status, out, err = interrupt_solver(AT_PROGRESS, "exact", 60, 500)
    assert status == 130, err
    assert err.endswith("Interrupted; this is the best that exact found until then.\n")
    assert "interrupted" in out
    (answer,) = json.loads(Path("s.json").read_text())["solutions"]
    assert answer["status"] == "interrupted"
    assert answer["bound"] <= answer["objective"]


def test_installed_program_solves(problem):
    result = subprocess.run(
        [PROGRAM, "solve", "problem.json", "--json"], capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr
    w = np.array(json.loads(result.stdout)["solutions"][0]["w"])
    assert load_problem("problem.json").is_feasible(w)


def test_samplers_by_name_are_compared_with_local_search(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    A = np.where(np.random.default_rng(0).random((8, 60)) < 0.6, 1, -1)
    save_problem("problem.json", MasterProblem(A, nu=1e-4, lam=0.02))
    names = "local,simulated-annealing,path-integral,dwave-tabu,random"
    result = run("solve", "problem.json", "--solver", names)
    assert result.exit_code == 0
    for name in names.split(","):
        assert name in result.stdout


def test_named_samplers_are_loaded_before_the_clock_starts(monkeypatch):
    is_loaded = []
    solve = command.solve_checked

    def listen(session, problem, start, rng):
        is_loaded.append(session.solver.connection[1] is not None)
        return solve(session, problem, start, rng)

    monkeypatch.setattr(command, "solve_checked", listen)
    run("solve", "problem.json", "--solver", "simulated-annealing,random")
    assert is_loaded == [True, True]


# -- samplers and solvers of the user's own --------------------------------------------------

MINE = """
import dimod
from totalqboost.solving import SolverError
from totalqboost.solvers import BQMSolver, LocalSearch

n_calls = 0

class Counting(dimod.ExactSolver):
    def sample(self, bqm, **parameters):
        global n_calls
        n_calls += 1
        return super().sample(bqm)

class Broken(dimod.ExactSolver):
    def sample(self, bqm, **parameters):
        raise ConnectionError("the service is down")

class Plain:
    def solve(self, problem, start=None, rng=None):
        return LocalSearch().solve(problem, start, rng)

class Noting(dimod.RandomSampler):
    def sample(self, bqm, **parameters):
        global n_variables
        n_variables = len(bqm.variables)
        return super().sample(bqm, num_reads=4)

n_made = 0

def noting():
    global n_made
    n_made += 1
    return Noting()

def processor():
    return Counting()

once = BQMSolver(processor, n_calls=1)
plain = Plain()
number = 3
"""


@pytest.fixture
def mine(tmp_path):
    """A module of the user's own in the working directory."""
    (tmp_path / "my_samplers.py").write_text(MINE)
    (tmp_path / "my_bad_module.py").write_text("def (")
    yield
    sys.modules.pop("my_samplers", None)


# Kernels that are at work in a solver, and had not been loaded before: none.
KERNELS = """
import sys
import numpy as np
from numba.core.dispatcher import Dispatcher
from solver_contract import random_problem
from totalqboost.cli import solve

def n_loaded():
    modules = [m for name, m in list(sys.modules.items()) if name.startswith("totalqboost.")]
    found = {id(v): v for m in modules for v in vars(m).values() if isinstance(v, Dispatcher)}
    return sum(len(kernel.overloads) for kernel in found.values())

reads = np.eye(5, dtype=bool)[np.arange(15) % 5]
features = dict(n=15, lam=0.002, reads=reads, feature_price=np.full(5, 0.003))
problems = [
    random_problem(0, n=20, m=200, lam=0.004, nu=1e-4),
    random_problem(0, n=15, m=200, lam=0.001, max_learners=4),
    random_problem(0, m=200, max_features=2, **features),
]
problems[1] = problems[1].changed(cost=np.r_[0.0, np.ones(14)])
for name in ("local", "tabu", "exact"):
    for problem in problems:
        solver = solve._get(name)
        solve._warm_up(problem, name, solver, 0)
        before = n_loaded()
        solver.solve(problem, rng=np.random.default_rng(0))
        assert n_loaded() == before, (name, problem)
"""


def test_what_a_solver_needs_is_compiled_before_its_time_is_taken():
    here = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", KERNELS],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": here},
    )
    assert done.returncode == 0, done.stderr


def test_compilation_is_no_part_of_the_time(monkeypatch):
    @contextmanager
    def slow(found):
        yield
        found(1000.0)

    monkeypatch.setattr(command, "compilation_time", slow)
    save_problem("problem.json", MasterProblem([[1, 1, -1]], nu=0.1, lam=0.01))
    (answer,) = json.loads(run("solve", "problem.json", "--json").stdout)["solutions"]
    assert -1000.0 < answer["seconds"] < -900.0


def test_a_sampler_of_your_own_is_imported_and_not_called_to_warm_up(mine):
    names = "my_samplers:once,my_samplers:processor,my_samplers:Counting,my_samplers:plain"
    result = run("solve", "problem.json", "--solver", names, "--json")
    assert result.exit_code == 0, result.stderr
    answers = json.loads(result.stdout)["solutions"]
    assert [answer["solver"] for answer in answers] == names.split(",")
    assert answers[0]["note"] == "1 call of Counting"
    counts = [int(answer["note"].split()[0]) for answer in answers[:3]]
    assert sys.modules["my_samplers"].n_calls == sum(counts)
    assert str(Path.cwd()) not in sys.path


def test_bits_reach_a_sampler_of_your_own_over_one_connection(mine):
    args = ("solve", "problem.json", "--solver", "my_samplers:noting", "--json", "--n-bits")
    sizes = []
    for n_bits in (1, 2):
        result = run(*args, str(n_bits))
        assert result.exit_code == 0, result.stderr
        sizes.append(sys.modules["my_samplers"].n_variables)
    assert sizes[1] > sizes[0]
    assert sys.modules["my_samplers"].n_made == 2  # one per command


def test_nothing_is_made_before_the_problem_is_read(mine):
    error_of("solve", "missing.json", "--solver", "my_samplers:processor")
    assert "my_samplers" not in sys.modules


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("my_samplers:none", "--solver my_samplers:none: module 'my_samplers' has no attribute"),
        ("no_module:none", "importing no_module failed: ModuleNotFoundError: No module named"),
        ("my_bad_module:none", "importing my_bad_module failed: SyntaxError"),
        ("my_samplers:", "--solver must be MODULE:NAME for one of your own, got 'my_samplers:'"),
        (":processor", "--solver must be MODULE:NAME for one of your own, got ':processor'"),
        ("my_samplers:number", "--solver my_samplers:number: solver must be one of"),
        ("my_samplers:Broken", "Broken failed: ConnectionError: the service is down"),
    ],
)
def test_what_is_wrong_with_a_sampler_of_your_own_is_one_sentence(mine, name, complaint):
    assert complaint in error_of("solve", "problem.json", "--solver", name)
