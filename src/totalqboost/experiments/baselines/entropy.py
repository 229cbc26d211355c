"""ERLPBoost's master problem: the soft margin with an entropy, smooth in its dual."""

from __future__ import annotations

import numpy as np

from totalqboost.experiments.baselines.generation import MasterPoint

__all__ = ["EntropyMaster", "maximise_model"]

NEWTON_TOL = 1e-7  # duality gap of the entropy-regularised master
FEW_STEPS, MANY_STEPS = 20, 500  # Newton steps before a detour, and after


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
