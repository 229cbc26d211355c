"""Algorithm 1 of the paper, TotalQBoost: column generation with a cardinality penalty.

    Require: loss l, examples (x, y), dictionary {h}, nu, lam, tolerance eps, maximum T
     1  u_i = c_i; H empty; t = 0
     2  while t < T
     3      price the dictionary {h} with the current u
     4      if {h} - H is empty
               or no h outside H has an edge above nu + eps (eq. 9; with lam > 0 see below)
     5          break
     7      select the best h outside H
     8      H = {H, h}
    10      solve the restricted master problem with the cardinality penalty
    12      keep the columns with w_k > 0
    13      refit their weights: l1-regularised risk, continuous
    15      t = t + 1; u_i = -c_i l'(y_i H_i w)
    17  return the columns with w_k > 0

With lam = 0 and no limit, line 10 is skipped and this is ordinary l1 column generation
(L1CG); with a tiny nu it is the totally corrective UCG. ``plain_rounds`` runs that for the
first T' columns (experiment D).

With lam > 0 the paper abandons eq. (9): columns that the penalty rejects stay violated, and one
that is not may still take the place of two that are kept. It goes on until the dictionary has no
unseen column, or to T; that is ``exhaust``. Without it eq. (9) ends the rounds in any case.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import numpy as np

from totalqboost.boosting.engine import Engine
from totalqboost.boosting.result import BoostingResult, Event, Round
from totalqboost.interruption import unwrapped_interruption
from totalqboost.solving import Interrupted, SolverError, Status

__all__ = ["Rounds", "boost"]


@dataclass(frozen=True)
class Rounds:
    """When Algorithm 1 ends, and when the penalty begins.

    Attributes
    ----------
    max_rounds : int
        T, the largest number of columns generated.
    plain_rounds : int
        T', the number of first columns generated without the penalty; they count to T.
    patience : int, optional
        Stop after this many rounds in which the kept set did not change.
    exhaust : bool
        With a penalty, go on until the dictionary has no unseen column, as in the paper,
        instead of until none of these violates its dual constraint.
    """

    max_rounds: int = 100
    plain_rounds: int = 0
    patience: int | None = None
    exhaust: bool = False


def boost(engine: Engine, rounds: Rounds, on_event: Event | None = None) -> BoostingResult:
    """Run Algorithm 1; ``on_event`` is called with a :class:`Round` after each round.

    Ctrl-C raises :class:`Interrupted` and a solver that fails :class:`SolverError`, both with
    the result of the rounds done so far.
    """
    trace: list[Round] = []
    try:
        with unwrapped_interruption():
            status = _run(engine, rounds, trace, on_event)
            return engine.finish(status, trace)
    except KeyboardInterrupt:
        raise Interrupted(engine.finish(Status.INTERRUPTED, trace)) from None
    except SolverError as error:
        error.result = engine.finish(Status.SOLVER_FAILED, trace)
        raise


def _run(engine: Engine, rounds: Rounds, trace: list[Round], on_event: Event | None) -> Status:
    unchanged = 0
    n_plain = rounds.plain_rounds if engine.terms.is_penalised else math.inf  # T'
    while len(trace) < rounds.max_rounds:  # line 2
        began, kept = time.perf_counter(), engine.w > 0
        is_penalised = len(trace) >= n_plain
        candidate = engine.generate(any_edge=rounds.exhaust and is_penalised)  # lines 3-8
        if candidate is None:
            if is_penalised or not engine.terms.is_penalised:
                return Status.CONVERGED  # lines 4-5
            n_plain = len(trace)  # the rounds without the penalty have converged early
            if trace:
                engine.solve()
            continue
        if len(trace) + 1 < n_plain:
            engine.refit()
        else:
            engine.solve()  # lines 10-14
        record = engine.record(len(trace) + 1, candidate, began)  # line 15
        trace.append(record)
        if on_event is not None:
            on_event(record)
        is_same = np.array_equal(engine.w > 0, np.append(kept, False))
        unchanged = unchanged + 1 if is_same else 0
        if rounds.patience is not None and unchanged >= rounds.patience:
            return Status.PATIENCE
    if engine.is_pending and trace:
        engine.solve()
    return Status.MAX_ROUNDS
