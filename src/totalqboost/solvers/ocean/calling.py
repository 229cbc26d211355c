"""Calling samplers of any kind: what they can do, what they know, and how they fail.

Samplers differ. Those of constrained and nonlinear models on Leap are no ``dimod.Sampler``;
some ignore parameters they do not know, some list only a part of those they know; live
connections neither copy nor pickle. Here is the one place that deals with it.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np

from totalqboost.solving import SolverError

__all__ = [
    "SamplerError",
    "WrongSamplerError",
    "call",
    "can",
    "check_parameters",
    "create",
    "is_sampler",
    "kind_of",
    "made_by",
    "name_of",
]

T = TypeVar("T")

METHODS = {"cqm": "sample_cqm", "nonlinear": "sample", "bqm": "sample"}

# What is asked of samplers that know the parameter, unless the user says otherwise. The tabu
# search of dwave-samplers stops by the clock by default, so that a seed does not reproduce its
# reads; without the clock its starts of half a million moves would take seconds.
DEFAULTS = {"num_reads": 50, "num_sweeps": 200}
TABU_DEFAULTS = {
    "timeout": None,
    "num_restarts": 5,
    "coefficient_z_first": 100,
    "coefficient_z_restart": 100,
    "lower_bound_z": 1000,
}
TOKEN = "give a token with `dwave setup` or in the environment variable DWAVE_API_TOKEN"


class SamplerError(SolverError):
    """A sampler could not be created, failed, or gave no usable answer.

    Examples
    --------
    >>> import numpy as np
    >>> from totalqboost import MasterProblem
    >>> A = np.where(np.random.default_rng(0).random((6, 40)) < 0.6, 1, -1)
    >>> problem = MasterProblem(A, nu=1e-3, lam=0.01)
    >>> from totalqboost.solvers import BQMSolver, SamplerError
    >>> def no_token():
    ...     raise RuntimeError("no token")
    >>> try:
    ...     BQMSolver(no_token).solve(problem)
    ... except SamplerError as error:
    ...     print("no token" in str(error))
    True
    """


class WrongSamplerError(SamplerError, TypeError, ValueError):
    """Not a sampler, one of another kind, or one without a parameter; a fallback would hide it.

    Known before a fit it is a bad argument, found in one (a function says only when it is
    called what it makes) it is an error after which the rounds so far are kept.
    """


def kind_of(sampler: Any) -> str | None:
    """Return "cqm", "nonlinear" or "bqm", by what the object or class can do, or None."""
    if can(sampler, "sample_cqm"):
        return "cqm"
    if can(sampler, "estimated_min_time_limit"):
        return "nonlinear"
    # LeapHybridDQMSampler has sample_dqm only; a dimod.Sampler lists its parameters.
    return "bqm" if can(sampler, "sample") and can(sampler, "parameters") else None


def can(sampler: Any, name: str) -> bool:
    """Tell whether a sampler, or a class of samplers, has something of that name."""
    try:
        return hasattr(sampler, name)
    except Exception:  # a property that asks a service, which fails: it is there
        return True


def is_sampler(thing: Any) -> bool:
    """Tell whether the object is a sampler, not a factory of one (a class is a factory).

    Parameters
    ----------
    thing : object
        What may be one.

    Examples
    --------
    >>> from dwave.samplers import SimulatedAnnealingSampler
    >>> from totalqboost.solvers.ocean import is_sampler
    >>> is_sampler(SimulatedAnnealingSampler()), is_sampler(SimulatedAnnealingSampler)
    (True, False)
    """
    return not isinstance(thing, type) and kind_of(thing) is not None


def made_by(factory: Any) -> type | None:
    """Return the class of samplers that a factory makes, if that shows without a call."""
    made = getattr(factory, "func", factory)  # of a partial
    return made if isinstance(made, type) and kind_of(made) is not None else None


def name_of(sampler: Any) -> str:
    """Return a name for messages, with what a composite wraps or a partial calls."""
    if not is_sampler(sampler):
        sampler = getattr(sampler, "func", sampler)
        return getattr(sampler, "__name__", repr(sampler))
    child = getattr(sampler, "child", None) if can(sampler, "children") else None
    name = type(sampler).__name__
    return name if child is None else f"{name}({name_of(child)})"


def create(sampler: Any, timeout: float | None = None) -> Any:
    """Return the sampler itself, or the one that the factory makes."""
    if is_sampler(sampler):
        return sampler
    if not callable(sampler):
        raise WrongSamplerError(
            f"sampler must be a sampler or a function that returns one, got {sampler!r}"
        )
    try:
        made = sampler() if timeout is None else _within(sampler, timeout)
    except Exception as error:
        said = _said(error)
        hint = f"; {TOKEN}" if "token" in said.lower() else ""
        raise SamplerError(f"{name_of(sampler)} could not be created: {said}{hint}") from error
    if not is_sampler(made):
        raise WrongSamplerError(f"{name_of(sampler)}() must return a sampler, got {made!r}")
    return made


def check_parameters(sampler: Any, kind: str, parameters: Mapping[str, Any]) -> list[str]:
    """Return the parameters that a sampler lists and those its method names; others are an error.

    Of a class, only its method is known: one that takes any parameter is not checked.
    """
    signature = list(inspect.signature(getattr(sampler, METHODS[kind])).parameters.values())
    named = [p.name for p in signature if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    if isinstance(sampler, type):
        takes_others = any(p.kind is p.VAR_KEYWORD for p in signature)
        known = [*named[2:], *(parameters if takes_others else ())]  # after self and the model
    else:
        known = sorted({*named[1:], *_listed_parameters(sampler)})
    for name in parameters:
        if name not in known:
            raise WrongSamplerError(
                f"{name_of(sampler)} has no parameter {name!r}; it knows {known}"
            )
    return known


def _listed_parameters(sampler: Any) -> list[str]:
    try:
        return [*(sampler.parameters or ())] if can(sampler, "parameters") else []
    except Exception as error:  # samplers of a service ask it for them
        raise SamplerError(
            f"{name_of(sampler)} did not say what parameters it knows: {_said(error)}"
        ) from error


def call(
    sampler: Any,
    kind: str,
    model: Any,
    parameters: Mapping[str, Any],
    rng: np.random.Generator,
    timeout: float | None,
    decode: Callable[[Any], np.ndarray],
) -> np.ndarray:
    """Return the decoded weights of every read, or raise :class:`SamplerError`.

    A sampler that takes a seed gets one from the generator. Answers that are still on their
    way (futures, lazy sample sets) are waited for, at most ``timeout`` seconds.
    """
    known = check_parameters(sampler, kind, parameters)
    defaults = {**DEFAULTS, **(TABU_DEFAULTS if {*TABU_DEFAULTS} <= {*known} else {})}
    arguments = {name: value for name, value in defaults.items() if name in known}
    if "seed" in known:
        arguments["seed"] = int(rng.integers(2**31))
    arguments.update(parameters)

    def ask() -> np.ndarray:
        found = getattr(sampler, METHODS[kind])(model, **arguments)
        if can(found, "result"):
            found = found.result()
        if found is None and kind != "nonlinear":  # whose states are in the model
            raise ValueError("it returned nothing")
        return decode(found)

    name = name_of(sampler)
    try:
        weights = ask() if timeout is None else _within(ask, timeout)
    except Exception as error:
        raise SamplerError(f"{name} failed: {_said(error)}") from error
    if len(weights) == 0:
        raise SamplerError(f"{name} failed: it returned no samples")
    return weights


def _within(task: Callable[[], T], seconds: float) -> T:
    """Return what the task returns, or raise TimeoutError and leave it to itself."""
    done: list[T] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            done.append(task())
        except BaseException as error:  # handed over to the caller, not swallowed
            failed.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    if failed:
        raise failed[0]
    if not done:
        raise TimeoutError(f"no answer within {seconds:g} s")
    return done[0]


def _said(error: BaseException) -> str:
    text = str(error).strip()
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
