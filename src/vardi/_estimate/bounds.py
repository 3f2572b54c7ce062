r"""The paper's finite-sample constants as numbers, in log10 because most of them leave the floating-point range.

The paper is Laforgue and Clémençon, *Statistical Learning from Biased Training Samples*. Its constants depend on five
numbers of the problem: K, the overlap :math:`\kappa`, the smallest positive bias :math:`\varepsilon` (each
:math:`\omega_k` scaled to a maximum of 1), the smallest share :math:`\underline\lambda` and the curvature
:math:`\sigma`. Next to them is a certificate that is useful in practice.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from vardi._estimate.tangent import Tangent
from vardi._rows import Rows
from vardi._rows.arrays import ArrayBlock
from vardi._rows.contract import Extremes
from vardi._rows.gram import MAX_SPECTRAL_SAMPLES, Laplacian
from vardi._solve.identify import Name, judge
from vardi._tables import Facts, Part, Shown, Table
from vardi._types import Floats
from vardi.errors import MismatchError

TARGET = 0.1  # error of W, Omega or the cdf for which the rows needed are given
LOG10 = math.log(10.0)
HEADING = ("", "rows needed", "error here", "c", "c prime")


@dataclass(frozen=True)
class Statement:
    r"""One inequality of the paper: :math:`P\{\text{error} > t\} \le M e^{-cn} + M' e^{-c'nt^2}` for :math:`n \ge n_0`.

    The paper's :math:`\gamma / \sqrt n` is zero, as the sizes of the samples are taken as fixed.

    Attributes
    ----------
    log10_M, log10_c, log10_M_prime, log10_c_prime : float
        The constants; the primed ones are NaN for Proposition 1, which has no t.
    log10_n0 : float
        :math:`n_0 = \log(M) / c`; minus infinity where every n will do.
    log10_n : float
        Rows from which the error is at most 0.1 (Proposition 1: from which it holds) with probability 1 - delta.
    log10_t : float
        The error it bounds at this n with probability 1 - delta; infinite while n is too small for any.
    """

    log10_M: float  # noqa: N815
    log10_c: float
    log10_M_prime: float  # noqa: N815
    log10_c_prime: float
    log10_n0: float
    log10_n: float
    log10_t: float


@dataclass(frozen=True)
class Bounds(Shown):
    r"""What finite-sample theory promises for a fit.

    Attributes
    ----------
    n, delta : float
        Rows, and the probability with which a statement may fail.
    kappa : float
        The largest mass such that pairs of biases which share at least that mass of the population connect all samples.
    epsilon : float
        The smallest positive value of a bias, each scaled to a maximum of 1 over the rows of the pool.
    lambda_min : float
        The smallest share :math:`n_k / n`.
    sigma2 : float
        The second smallest eigenvalue of the Hessian H at the solution; infinite for one sample.
    log10_U, log10_rho : float
        :math:`U = \log(K/\varepsilon) \sum_{t=1}^{K-1} x^t` with :math:`x = 2 / (\underline\lambda\kappa\varepsilon)`
        bounds the range of u, and :math:`\rho = \underline\lambda e^{-U}` every W from below.
    u_range, w_min : float
        The range of u and the smallest W of this fit, to compare them with.
    log10_sigma : float
        Assumption 5 wants one :math:`\sigma` for all u in :math:`[0, U]^K`; it cannot exceed
        :math:`(K/\varepsilon) e^{-U}`. The constants below use ``sigma2`` instead, and so are optimistic.
    proposition_1, proposition_2, proposition_3, dkw : Statement
        Propositions 1 (the solution exists), 2 (of W) and 3 (of Omega), and the DKW-type theorem (of the cdf).
    r : float
        The certificate: with probability 1 - delta every ratio of weights, and of normalisers, is within a factor
        :math:`e^r` of what it would be if the normalisers were known. Infinite while n is below ``n_certificate``.
    n_certificate : float
        Rows from which r is finite, :math:`2 (1/2 + \sqrt{\log(1/\delta)})^2 / \sigma_2^2`.
    """

    n: float
    delta: float
    kappa: float
    epsilon: float
    lambda_min: float
    sigma2: float
    log10_U: float  # noqa: N815
    log10_rho: float
    u_range: float
    w_min: float
    log10_sigma: float
    proposition_1: Statement
    proposition_2: Statement
    proposition_3: Statement
    dkw: Statement
    r: float
    n_certificate: float

    @property
    def U(self) -> float:  # noqa: N802
        """The bound on the range of u; infinite where it leaves the floating-point range."""
        return _exp(self.log10_U * LOG10)

    @property
    def rho(self) -> float:
        """The bound on W from below; zero where it leaves the floating-point range."""
        return _exp(self.log10_rho * LOG10)

    def _parts(self) -> list[Part]:
        constants = {
            "kappa": f"{self.kappa:.3g}",
            "epsilon": f"{self.epsilon:.3g}",
            "lambda_min": f"{self.lambda_min:.3g}",
            "sigma2": f"{self.sigma2:.3g}",
            "U": f"{_power(self.log10_U)} bounds the range of u, in fact {self.u_range:.3g}",
            "rho": f"{_power(self.log10_rho)} bounds W from below, in fact {self.w_min:.3g}",
        }
        return [Facts(constants), Table(HEADING, self._cells()), *self._words()]

    def _cells(self) -> list[tuple[str, str, str, str, str]]:
        statements = {
            "Prop. 1  solution exists": self.proposition_1,
            "Prop. 2  W": self.proposition_2,
            "Prop. 3  Omega": self.proposition_3,
            "DKW      cdf": self.dkw,
        }
        cells = []
        for name, one in statements.items():
            here, primed = "vacuous" if one.log10_t >= 0 else _power(one.log10_t), _power(one.log10_c_prime)
            if one is self.proposition_1:  # which has no t
                here = primed = ""
            cells.append((name, _power(one.log10_n), here, _power(one.log10_c), primed))
        return cells

    def _words(self) -> list[str]:
        rows = _power(_log(self.n_certificate) / LOG10)
        factor = f"every ratio of weights is within a factor {_exp(self.r):.3g} of its value for known normalisers"
        held = "more than" if math.log10(self.n) < self.proposition_1.log10_n else "which"
        box = _power(self.log10_sigma)
        return [
            f"Each may fail with probability {self.delta:g}. The certificate needs {rows} rows: "
            f"{factor if self.r < math.inf else 'it is vacuous at this n'}. It was 5 to 16 times wider than the "
            "errors of simulated fits: a guarantee, not an error bar.",
            f"Proposition 1 needs {_power(self.proposition_1.log10_n)} rows, {held} the fit has. That the solution "
            "exists is checked on the data themselves, which takes fewer rows.",
            f"Proposition 2 is given the curvature of this fit, {self.sigma2:.2g}, but its proof needs that of a whole "
            f"box, which is at most {box}: its figures are optimistic, and poor nevertheless. Rows needed are for an "
            f"error of {TARGET:g}; an error of 1 or more is vacuous.",
            "Proposition 3 and the DKW-type theorem also divide by powers of rho, and are vacuous in practice. "
            "Use standard errors and bands.",
        ]


def bounds(influence: Tangent, names: Sequence[Name], delta: float = 0.05) -> Bounds:
    r"""Return the paper's constants for a fit, and the certificate that holds as well.

    With :math:`L = 4\sqrt{K+1}/\sigma`, and fixed sizes (:math:`C_\lambda = 0`, hence :math:`\gamma = 0`):

    .. math::

        M_1 &= 2(K-1), & c_1 &= \underline\lambda(\kappa\varepsilon)^2/2, \\
        M_2 &= 2\max(M_1, 2K^{2K+3}(6U/\sigma)^K), & c_2 &= \min(c_1, \underline\lambda\sigma^2/(32K^2)), \\
        M'_2 &= 2K^2, & c'_2 &= 2\underline\lambda/(L^2K), \\
        M'_3 &= 2\max(M'_2, 2K), & c'_3 &= \min\Big(c'_2 \Big/ 4\Big(\frac1\rho +
            \frac1{\varepsilon^2\underline\lambda^2\rho^4}\Big)^2,\ \varepsilon^2\underline\lambda^3\rho^4/2\Big), \\
        M' &= 2\max(M'_3, 2K), & c' &= \min(c'_3(\varepsilon\underline\lambda\rho)^8/4,\
            \varepsilon^2\underline\lambda^3/2)

    for Propositions 1 to 3 and the DKW-type theorem; M and c of the latter two are those of Proposition 2. Against the
    printed text, :math:`c'_3` is a minimum, :math:`n_0 = \log(M)/c`, and U is the sum from t = 1. The theorem leaves a
    constant of its empirical process open, which is taken as Massart's 2; it does not matter here. The certificate is

    .. math:: r = -\log\Big(1 - \sqrt2\,\frac{1/2 + \sqrt{\log(1/\delta)}}{\sigma_2\sqrt n}\Big).

    Parameters
    ----------
    influence : Tangent
        The fit.
    names : sequence
        A name for each bias.
    delta : float
        The probability with which each statement may fail.

    Examples
    --------
    >>> import vardi
    >>> design = vardi.datasets.tilts(sizes=(2000, 1500, 2000), seed=0)
    >>> fit = vardi.debias(design.samples, design.biases)
    >>> b = bounds(fit.solved.tangent, fit.names)
    >>> round(b.sigma2, 2), round(b.r, 2), round(b.n_certificate), f"1e{b.dkw.log10_n:.2g}"
    (0.29, 0.16, 114, '1e8.8e+07')
    """
    if not isinstance(delta, int | float | np.number) or not 0.0 < delta < 1.0:
        raise MismatchError(
            f"delta is {delta}, but it is the probability with which a bound may fail. Give a number between 0 and 1."
        )
    hessian, n = influence.hessian, influence.n
    rows, sampled = hessian.rows, hessian.sampled
    assert isinstance(rows, Rows)
    K = int(sampled.sum())
    mass = influence.measure.row_weights * rows.counts
    kappa = judge(rows, names, rows.overlap(mass / mass.sum())).kappa
    sigma2 = _second_eigenvalue(hessian.laplacian) / n
    shares, u = rows.sizes[sampled] / n, hessian.u[sampled]
    # From here on every variable is a natural logarithm, named after its argument.
    eps, lam, kap, sigma = _log_epsilon(rows), math.log(shares.min()), math.log(kappa), math.log(sigma2)
    x = math.log(2.0) - lam - kap - eps
    U = _log(math.log(K) - eps) + float(np.logaddexp.reduce(x * np.arange(1, K)))
    rho = lam - _exp(U)
    M_1, c_1 = _log(2.0 * (K - 1)), lam + 2 * (kap + eps) - math.log(2.0)
    M_2 = math.log(2.0) + max(M_1, math.log(2.0) + (2 * K + 3) * math.log(K) + K * (math.log(6.0) + U - sigma))
    c_2 = min(c_1, lam + 2 * sigma - math.log(32.0 * K**2))
    log_L = math.log(4.0) + 0.5 * math.log(K + 1) - sigma
    Mp_2, cp_2 = math.log(2.0 * K**2), math.log(2.0 / K) + lam - 2 * log_L
    steep = float(np.logaddexp(-rho, -2 * (eps + lam) - 4 * rho))
    Mp_3 = math.log(2.0) + max(Mp_2, math.log(2.0 * K))
    cp_3 = min(cp_2 - math.log(4.0) - 2 * steep, 2 * eps + 3 * lam + 4 * rho - math.log(2.0))
    Mp, cp = math.log(2.0) + Mp_3, min(cp_3 + 8 * (eps + lam + rho) - math.log(4.0), 2 * eps + 3 * lam - math.log(2.0))
    tail = math.sqrt(2.0) * (0.5 + math.sqrt(math.log(1.0 / delta)))
    reach = tail / (sigma2 * math.sqrt(n))
    return Bounds(
        n=n,
        delta=delta,
        kappa=kappa,
        epsilon=math.exp(eps),
        lambda_min=float(shares.min()),
        sigma2=sigma2,
        log10_U=U / LOG10,
        log10_rho=rho / LOG10,
        u_range=float(np.ptp(u)),
        w_min=float((shares * np.exp(u.min() - u)).min()),
        log10_sigma=(math.log(K) - eps - _exp(U)) / LOG10,
        proposition_1=_statement(n, delta, M_1, c_1),
        proposition_2=_statement(n, delta, M_2, c_2, Mp_2, cp_2),
        proposition_3=_statement(n, delta, M_2, c_2, Mp_3, cp_3),
        dkw=_statement(n, delta, M_2, c_2, Mp, cp),
        r=-math.log1p(-reach) if reach < 1.0 else math.inf,
        n_certificate=(tail / sigma2) ** 2,
    )


def _statement(n: float, delta: float, M: float, c: float, Mp: float = math.nan, cp: float = math.nan) -> Statement:
    """Return a statement from the logs of its constants; each of its two terms gets half of delta."""
    n_0, parts = _rows_needed(M, c), 1 if math.isnan(Mp) else 2
    needed, t = _rows_needed(M - math.log(delta / parts), c), math.nan
    if parts == 2:
        t = 0.5 * (_rows_needed(Mp - math.log(delta / 2), cp) - math.log(n)) if math.log(n) >= needed else math.inf
        needed = max(needed, _rows_needed(Mp - math.log(delta / 2), cp + 2 * math.log(TARGET)))
    return Statement(*(float(value) / LOG10 for value in (M, c, Mp, cp, n_0, needed, t)))


def _rows_needed(M: float, c: float) -> float:
    """Return the log of n = log(M) / c, at which M e^{-cn} = 1; M and c are given as logs."""
    return _log(M) - c if M > 0.0 else -math.inf


def _second_eigenvalue(laplacian: Laplacian) -> float:
    """Return the second smallest eigenvalue of H as one over the largest of H^+, which is accurate if it is small."""
    K = len(laplacian.q)

    def solve(x: Floats) -> Floats:
        solution = laplacian.solve(x.ravel() - x.mean())
        return solution - solution.mean()

    if K == 1:
        return math.inf
    if K <= MAX_SPECTRAL_SAMPLES:
        return float(1.0 / np.linalg.eigvalsh(np.column_stack([solve(e) for e in np.eye(K)]))[-1])
    operator = sparse.linalg.LinearOperator((K, K), matvec=solve, dtype=np.float64)
    start = np.random.default_rng(0).standard_normal(K)
    return float(1.0 / sparse.linalg.eigsh(operator, k=1, which="LA", v0=start, return_eigenvectors=False)[0])


def _log_epsilon(rows: Rows) -> float:
    """Return the log of the smallest positive omega_k(z_i) / max_i omega_k(z_i), over sampled biases."""

    def question(block: ArrayBlock) -> Extremes:
        logs = block.log_omega()
        return Extremes(np.where(logs > -np.inf, logs, np.inf).min(axis=0), logs.max(axis=0))

    ends = rows.arrays.total(question)
    return float((ends.low - ends.high)[rows.sizes > 0].min())


def _log(x: float) -> float:
    return math.log(x) if x > 0.0 else -math.inf


def _exp(x: float) -> float:
    return math.exp(x) if x < 709.0 else math.inf


def _power(log10: float) -> str:
    """Return 10^log10 as readable text."""
    if -4.0 <= log10 < 6.0 or not math.isfinite(log10):
        return f"{10.0**log10:,.3g}" if math.isfinite(log10) else "inf" if log10 > 0 else "0"
    return f"10^{log10:.1f}" if abs(log10) < 1e5 else f"10^{log10:.1e}"
