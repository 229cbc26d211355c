"""Baselines on the same dictionary: AdaBoost, LPBoost and ERLPBoost.

Write z_i = sum_j w_j A[j, i] for the margins of the ensemble, A[j, i] = y_i h_j(x_i), and c
for the normalised sample weights. Each baseline keeps a distribution d over the examples and
asks the oracle for the column of the largest edge sum_i d_i y_i h(x_i).

adaboost (corrective)
    d_i ~ c_i exp(-z_i); the chosen column alone gets weight, ln((1 + edge) / (1 - edge)) / 2.
    Freund and Schapire, A decision-theoretic generalization of on-line learning, 1997.

lpboost (totally corrective)
    maximise the soft margin  rho - sum_i c_i max(0, rho - z_i) / nu  over w in the simplex
    = minimise  max_j sum_i d_i A[j, i]  over the capped simplex  sum_i d_i = 1, d_i <= c_i / nu.
    Demiriz, Bennett and Shawe-Taylor, Linear programming boosting via column generation, 2002.

erlpboost (totally corrective)
    minimise  max_j sum_i d_i A[j, i] + KL(d, c) / eta  over the same capped simplex,
    eta = max(2 ln(1 / nu) / tol, 1/2). KL is at most ln(1 / nu) there, so the optimum is that
    of LPBoost within tol / 2, and d and w are unique and stable.
    Warmuth, Glocer and Vishwanathan, Entropy regularized LPBoost, 2008. Their nu is our
    nu times the number of examples; they hand the final columns to the linear program once
    more, we keep the w of each round's own problem, which is optimal within the same tol / 2.

The two masters report what they minimise, minus the (regularised) soft margin, and a lower
bound of it over the whole dictionary: from any d of the capped simplex, weak duality gives
-max_h sum_i d_i y_i h(x_i) - KL(d, c) / eta.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import linprog

from totalqboost.boosting import GeneratedColumns, Terms, next_column
from totalqboost.dictionaries.base import Oracle
from totalqboost.ensemble import Ensemble
from totalqboost.learners import Constant, Learner, Stump
from totalqboost.losses import Exponential

__all__ = [
    "BASELINES",
    "SOFT_MARGINS",
    "EntropyMaster",
    "LinearMaster",
    "MasterPoint",
    "Stage",
    "baseline_stages",
    "run_baseline",
    "soft_margin",
]

BASELINES = ("adaboost", "lpboost", "erlpboost")
SOFT_MARGINS = (0.1, 0.3, 0.5)  # nu: for clean, middling and noisy data
LARGEST_EDGE = 1.0 - 1e-12  # of a column that is not perfect
SMALLEST_EDGE = 1e-12  # below, no column is better than chance
LP_TOL = 1e-7  # HiGHS's own tolerance
NEWTON_TOL = 1e-7  # duality gap of the entropy-regularised master
FEW_STEPS, MANY_STEPS = 20, 500  # Newton steps before a detour, and after


@dataclass(frozen=True)
class Stage:
    """The ensemble after one round.

    Attributes
    ----------
    ensemble : Ensemble
        Distinct columns of positive weight.
    objective : float
        What the baseline minimises: the exponential risk, or minus the soft margin (less
        KL / eta for ERLPBoost).
    bound : float
        Lower bound of the objective over the whole dictionary, -inf if none is known.
    seconds : float
        Duration of the round.
    """

    ensemble: Ensemble
    objective: float
    bound: float
    seconds: float


def run_baseline(
    name: str,
    oracle: Oracle,
    y: np.ndarray,
    *,
    max_rounds: int = 100,
    sample_weight: np.ndarray | None = None,
    nu: float = 0.3,
    tol: float = 0.01,
) -> list[Ensemble]:
    """Return the ensemble after each round; see :func:`baseline_stages`.

    Examples
    --------
    >>> import numpy as np
    >>> from totalqboost.dictionaries import Stumps
    >>> X, y = np.array([[1.0], [2.0], [3.0], [4.0]]), np.array([-1, 1, 1, -1])
    >>> ensembles = run_baseline("lpboost", Stumps().prepare(X, y), y, nu=0.25)
    >>> [ensemble.n_learners for ensemble in ensembles]
    [1, 2, 2, 3]
    """
    stages = baseline_stages(
        name, oracle, y, max_rounds=max_rounds, sample_weight=sample_weight, nu=nu, tol=tol
    )
    return [stage.ensemble for stage in stages]


def baseline_stages(
    name: str,
    oracle: Oracle,
    y: np.ndarray,
    *,
    max_rounds: int = 100,
    sample_weight: np.ndarray | None = None,
    nu: float = 0.3,
    tol: float = 0.01,
) -> Iterator[Stage]:
    """Run a baseline round by round.

    Parameters
    ----------
    name : {"adaboost", "lpboost", "erlpboost"}
        Which baseline.
    oracle : Oracle
        A prepared dictionary; columns are priced by their edge.
    y : array of -1 and +1
        Labels that the oracle was prepared with.
    max_rounds : int
        Largest number of rounds.
    sample_weight : array, optional
        Weight c_i per example, normalised to sum to one.
    nu : float
        The soft margin is the mean of this share of the margins, the lowest; above 0, at
        most 1, and AdaBoost has none. Small shares suit clean data: well below twice the
        training error the best soft margin is about 0, and LPBoost's weights mean little
        (early on it may even hold a column together with its opposite).
    tol : float
        Accuracy of the soft margin: a totally corrective baseline stops when it is reached,
        and ERLPBoost's eta follows from it. AdaBoost stops only at a perfect column or when
        no column is better than chance.
    """
    c = _checked_weights(np.asarray(y), sample_weight)
    if max_rounds < 1:
        raise ValueError(f"max_rounds must be >= 1, got {max_rounds!r}")
    if name not in BASELINES:
        raise ValueError(f"name must be one of {list(BASELINES)}, got {name!r}")
    if not 0 < nu <= 1:
        raise ValueError(f"nu must be above 0 and at most 1, got {nu!r}")
    if not tol > 0:
        raise ValueError(f"tol must be > 0, got {tol!r}")
    if name == "adaboost":
        return _adaboost(oracle, c, max_rounds)
    present = c[c > 0]
    if name == "lpboost":
        return _totally_corrective(oracle, c, max_rounds, LinearMaster(present, nu).solve, tol)
    eta = max(2.0 * np.log(1.0 / nu) / tol, 0.5)
    master = EntropyMaster(present, nu, eta)
    return _totally_corrective(oracle, c, max_rounds, master.solve, tol / 2)


def _checked_weights(y: np.ndarray, sample_weight: np.ndarray | None) -> np.ndarray:
    """Return the normalised sample weights c."""
    if y.ndim != 1 or len(y) == 0 or not np.isin(y, (-1, 1)).all():
        raise ValueError("y must be a non-empty array of -1 and +1")
    c = np.ones(len(y)) if sample_weight is None else np.asarray(sample_weight, dtype=float)
    if c.shape != y.shape or not (np.isfinite(c).all() and (c >= 0).all() and c.any()):
        raise ValueError(
            f"sample_weight must be {len(y)} finite numbers >= 0, not all of them zero"
        )
    return c / c.sum()


# -- corrective ----------------------------------------------------------------------------


def _adaboost(oracle: Oracle, c: np.ndarray, max_rounds: int) -> Iterator[Stage]:
    """Discrete AdaBoost; a column chosen again adds to its weight, its opposite subtracts.

    A column without any error needs no company: it becomes the whole ensemble, at weight 1.
    """
    weights: dict[Learner, float] = {}
    z = np.zeros(len(c))
    for _ in range(max_rounds):
        began = time.perf_counter()
        d = c * np.exp(z.min() - z)
        d /= d.sum()
        best = oracle.best(d)[0]
        if best.edge <= SMALLEST_EDGE:
            return
        is_perfect = bool((best.column[c > 0] > 0).all())
        if is_perfect:
            weights, z = {best.learner: 1.0}, 1.0 * best.column
        else:
            alpha = float(np.arctanh(min(best.edge, LARGEST_EDGE)))
            _add_weight(weights, best.learner, alpha)
            z += alpha * best.column
        risk = float(c @ np.exp(-z))
        ensemble = _ensemble(list(weights), np.array(list(weights.values())))
        yield Stage(ensemble, risk, -np.inf, time.perf_counter() - began)
        if is_perfect:
            return


def _add_weight(weights: dict[Learner, float], learner: Learner, alpha: float) -> None:
    """Add alpha h to the sum; h and -h are one learner, of the sign that remains."""
    if isinstance(learner, Stump | Constant):
        opposite = replace(learner, polarity=-learner.polarity)
        alpha -= weights.pop(opposite, 0.0)
        if alpha < 0:
            learner, alpha = opposite, -alpha
    weights[learner] = weights.get(learner, 0.0) + alpha


def _ensemble(learners: list[Learner], w: np.ndarray) -> Ensemble:
    """Return the ensemble of the columns of positive weight; a constant counts as one."""
    return Ensemble.from_columns(learners, w, np.zeros(len(w), dtype=bool))


# -- totally corrective --------------------------------------------------------------------


@dataclass(frozen=True)
class MasterPoint:
    """A solution over the columns so far: weights w and the distribution d.

    ``value`` is reached by w (a lower bound), ``edges`` are those of the columns under d,
    and max(edges) + ``divergence`` is an upper bound, where divergence = KL(d, c) / eta.
    """

    w: np.ndarray
    d: np.ndarray
    value: float
    edges: np.ndarray
    divergence: float = 0.0

    @property
    def gap(self) -> float:
        return float(self.edges.max()) + self.divergence - self.value


def _totally_corrective(
    oracle: Oracle,
    c: np.ndarray,
    max_rounds: int,
    master: Callable[[np.ndarray], MasterPoint],
    tol: float,
) -> Iterator[Stage]:
    """Column generation; stops when the best column can raise the value by at most tol."""
    H = GeneratedColumns(Terms(Exponential(), c, nu=0.0))
    present = np.flatnonzero(c)
    d = c.copy()
    upper = np.inf
    began = time.perf_counter()
    candidate = next_column(oracle, H, d)
    while candidate is not None and len(H) < max_rounds:
        H.add(candidate)
        point = master(H.problem().A[:, present].astype(float))
        d[present] = point.d
        candidate = next_column(oracle, H, d)
        edge = max(point.edges.max(), -np.inf if candidate is None else candidate.edge)
        upper = min(upper, float(edge) + point.divergence)
        ensemble = _ensemble(H.learners, point.w)
        yield Stage(ensemble, -point.value, -upper, time.perf_counter() - began)
        if upper - point.value <= tol:
            return
        began = time.perf_counter()


def soft_margin(z: np.ndarray, c: np.ndarray, nu: float) -> float:
    """Return max_rho rho - sum_i c_i max(0, rho - z_i) / nu: the mean of the lowest nu margins."""
    order = np.argsort(z, kind="stable")
    below = np.minimum(np.cumsum(c[order]), nu)
    return float(z[order] @ np.diff(below, prepend=0.0)) / nu


class LinearMaster:
    """LPBoost's master problem, by HiGHS, warm-started from one solve to the next.

    At the optimum d_i = 0 where z_i > rho and d_i = c_i / nu where z_i < rho: all but a few
    examples stay where they were. The linear program is solved over the others (those
    nearest to rho), and examples whose bound turns out wrong join until there are none: the
    optimum is that of the full program.
    """

    def __init__(self, c: np.ndarray, nu: float):
        self.c, self.nu, self.cap = c, nu, c / nu
        self._d = np.minimum(c, self.cap)
        self._slack = np.zeros(len(c))  # z - rho

    def solve(self, A: np.ndarray) -> MasterPoint:
        """Return the optimum over the rows of A, which must be those of before and more."""
        d, cap = self._d, self.cap
        distance = np.abs(self._slack)
        n_near = min(6 * (len(A) + 20), len(d))
        free = (d > 0) & (d < cap)
        free |= distance <= np.partition(distance, n_near - 1)[n_near - 1]
        while True:
            fixed = np.where(free, 0.0, d)
            d[free], w, rho = _solve_lp(A[:, free], cap[free], A @ fixed, 1.0 - fixed.sum())
            z = w @ A
            self._slack = z - rho
            wrong = np.where(d > 0, self._slack > LP_TOL, self._slack < -LP_TOL) & ~free
            if not wrong.any():
                break
            free |= wrong
        value = soft_margin(z, self.c, self.nu)
        return MasterPoint(w, d.copy(), value, A @ d)


def _solve_lp(
    A: np.ndarray, cap: np.ndarray, fixed_edges: np.ndarray, mass: float
) -> tuple[np.ndarray, np.ndarray, float]:
    """Minimise gamma over A d + fixed_edges <= gamma, sum(d) = mass, 0 <= d <= cap.

    Returns d, the multipliers w of the edges (they sum to one), and that of the mass, rho.
    """
    t, k = A.shape
    answer = linprog(
        np.append(np.zeros(k), 1.0),
        A_ub=np.column_stack([A, -np.ones(t)]),
        b_ub=-fixed_edges,
        A_eq=np.append(np.ones(k), 0.0)[np.newaxis],
        b_eq=[mass],
        bounds=np.column_stack([np.append(np.zeros(k), -np.inf), np.append(cap, np.inf)]),
        method="highs",
    )
    if answer.status != 0:
        raise RuntimeError(f"HiGHS did not solve LPBoost's master problem: {answer.message}")
    w = np.maximum(-answer.ineqlin.marginals, 0.0)
    w[w < 1e-9] = 0.0
    return np.clip(answer.x[:k], 0.0, cap), w / w.sum(), float(answer.eqlin.marginals[0])


class EntropyMaster:
    """ERLPBoost's master problem, by Newton steps on its smooth dual over w in the simplex.

    maximise  G(w) = min_d sum_i d_i z_i + KL(d, c) / eta,   z = A' w

    The inner minimum is d_i = c_i min(exp(theta - eta z_i), 1 / nu), with theta such that
    sum_i d_i = 1 (:meth:`distribution`). G has the gradient A d, and on the examples F that
    are not at their cap the Hessian -eta (A diag(d_F) A' - v v' / sum(d_F)), v = A d_F.
    Each step maximises that model less ridge |p|^2 / 2 over the simplex; the ridge grows
    where the model fails (Levenberg and Marquardt).
    """

    def __init__(self, c: np.ndarray, nu: float, eta: float):
        self.c, self.nu, self.eta = c, nu, eta
        self._w = np.empty(0)

    def solve(self, A: np.ndarray) -> MasterPoint:
        """Return the optimum over the rows of A, which must be those of before and more."""
        start = np.append(self._w, np.zeros(len(A) - len(self._w)))
        start = start if start.any() else np.full(len(A), 1.0 / len(A))
        point = self._maximise(A, start, NEWTON_TOL)
        self._w = point.w
        return point

    def _maximise(self, A: np.ndarray, w: np.ndarray, tol: float) -> MasterPoint:
        """Return the maximum of G to a gap of tol; far from w, by way of a smaller eta."""
        is_smooth = self.eta <= 1.0
        point = self._ascend(A, w, tol, MANY_STEPS if is_smooth else FEW_STEPS)
        if point.gap <= tol or is_smooth:
            return point
        smoother = EntropyMaster(self.c, self.nu, self.eta / 4.0)
        nearby = smoother._maximise(A, point.w, max(tol, 0.01 / self.eta))
        return self._ascend(A, nearby.w, tol, MANY_STEPS)

    def _ascend(self, A: np.ndarray, w: np.ndarray, tol: float, n_steps: int) -> MasterPoint:
        """Return the point that at most n_steps Newton steps from w reach."""
        point = self._point(A, w)
        ridge, Q = 1e-6 * self.eta, None
        for _ in range(n_steps):
            if point.gap <= tol or ridge > 1e9 * self.eta:  # or there is no ascent left
                break
            Q = self._curvature(A, point.d) if Q is None else Q
            trial = self._point(A, maximise_model(Q, ridge, point.edges, point.w))
            step = trial.w - point.w
            expected = float(point.edges @ step - 0.5 * step @ Q @ step)
            gain = trial.value - point.value
            if gain > 0.7 * expected:
                ridge = max(ridge / 8.0, 1e-9 * self.eta)
            if gain >= 0.1 * expected - 1e-14:  # that much is rounding
                point, Q = trial, None
            else:
                ridge *= 8.0
        return point

    def distribution(self, z: np.ndarray) -> tuple[np.ndarray, float]:
        """Return the inner minimiser d, and s = theta / eta.

        With the k smallest margins at their cap, theta is the logarithm of the mass that
        is left over the sum of c_i exp(-eta z_i) of the others; k is the first for which
        none of the others exceeds its cap.
        """
        order = np.argsort(z, kind="stable")
        c, x = self.c[order], -self.eta * z[order]
        left = 1.0 - np.append(0.0, np.cumsum(c)[:-1]) / self.nu
        possible = np.flatnonzero(left > 1e-12)
        others = np.logaddexp.accumulate((np.log(c) + x)[::-1])[::-1]
        theta = np.log(left[possible]) - others[possible]
        is_valid = theta + x[possible] <= -np.log(self.nu)
        is_valid[-1] = True  # but for rounding
        s = float(theta[np.argmax(is_valid)]) / self.eta
        return self.c * np.exp(self._log_ratio(z, s)), s

    def _log_ratio(self, z: np.ndarray, s: float) -> np.ndarray:
        """Return ln(d_i / c_i)."""
        return np.minimum(self.eta * (s - z), -np.log(self.nu))

    def _point(self, A: np.ndarray, w: np.ndarray) -> MasterPoint:
        z = w @ A
        d, s = self.distribution(z)
        divergence = float(d @ self._log_ratio(z, s)) / self.eta
        # The Lagrangian of sum_i d_i = 1, not sum_i d_i z_i + KL / eta: it is stationary in s,
        # so that rounding of s, which eta amplifies in d, does not show.
        above_cap = np.maximum(s + np.log(self.nu) / self.eta - z, 0.0)
        value = s - float(self.c @ above_cap) / self.nu
        return MasterPoint(w, d, value, A @ d, divergence)

    def _curvature(self, A: np.ndarray, d: np.ndarray) -> np.ndarray:
        """Return minus the Hessian of G."""
        free = (d > 0) & (d < self.c / self.nu * (1.0 - 1e-12))
        d, A = d[free], A[:, free]
        v = A @ d
        return self.eta * ((A * d) @ A.T - np.outer(v, v) / max(d.sum(), 1e-300))


def maximise_model(Q: np.ndarray, ridge: float, g: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Return x in the simplex that maximises g'p - p'Qp / 2 - ridge p'p / 2, p = x - w.

    By active sets from w, for Q positive semidefinite and ridge > 0: take the best step on
    the free variables that keeps their sum; stop at the first that reaches 0 and fix it, else
    free the fixed one of the largest gradient, until none is above that of the free ones.
    """
    Q = Q + ridge * np.eye(len(Q))
    x, r = w.copy(), g.copy()  # r: gradient of the model at x
    is_free = x > 0
    for _ in range(10 * len(x) + 10):
        free = np.flatnonzero(is_free)
        step, level = _equality_step(Q[np.ix_(free, free)], r[free])
        end = x[free] + step
        reach = np.where(end < 0, x[free] / np.where(end < 0, -step, 1.0), 1.0)
        first = int(np.argmin(reach))
        alpha = min(1.0, float(reach[first]))
        x[free] = np.maximum(x[free] + alpha * step, 0.0)
        r -= Q[:, free] @ (alpha * step)
        if alpha < 1.0:
            x[free[first]] = 0.0
            is_free[free[first]] = False
            continue
        excess = np.where(is_free, -np.inf, r - level)
        if excess.max() <= 1e-12:
            break
        is_free[np.argmax(excess)] = True
    return x / x.sum()


def _equality_step(Q: np.ndarray, r: np.ndarray) -> tuple[np.ndarray, float]:
    """Return the p of sum 0 that maximises r'p - p'Qp / 2, and the gradient there (all equal)."""
    k = len(r)
    system = np.ones((k + 1, k + 1))
    system[:k, :k] = Q
    system[k, k] = 0.0
    solution = np.linalg.solve(system, np.append(r, 0.0))
    return solution[:k], float(solution[k])
