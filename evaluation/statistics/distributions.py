"""Student's t and the binomial distribution, which numpy lacks, from the incomplete beta function.

Uses only Python 3.9 and its standard library, as bundles of runs include this file.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import count
from math import exp, lgamma, log, pi, sqrt
from statistics import NormalDist

NORMAL = NormalDist()
TINY = 1e-300  # replaces a zero denominator


def beta_cdf(x: float, a: float, b: float, *, complement: float | None = None) -> float:
    """The regularised incomplete beta function I_x(a, b): P(X <= x) for X ~ Beta(a, b).

    I_x(a, b) = x^a (1 - x)^b / (a B(a, b)) / (1 + d1 / (1 + d2 / ...)); DLMF 8.17.22, evaluated by
    the method of Lentz (1976) as modified by Thompson & Barnett (1986). Computed as
    1 - I_(1-x)(b, a) where that converges faster (DLMF 8.17.4).

    `complement`: 1 - x, if the caller knows it more precisely than subtraction gives it.
    """
    y = 1 - x if complement is None else complement
    if not (a > 0 and b > 0 and 0 <= x <= 1):
        raise ValueError(f"incomplete beta function undefined for x={x}, a={a}, b={b}")
    if x in (0.0, 1.0):
        return x
    if x > (a + 1) / (a + b + 2):
        return 1 - beta_cdf(y, b, a, complement=x)
    front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log(y)) / a
    upper, lower = 1.0, 1 / (1 - (a + b) * x / (a + 1))
    fraction = lower
    a_plus_b = a + b
    for m in count(1):  # both terms inline: reports on many pairs spend much time here
        even = a + 2 * m
        term = m * (b - m) * x / ((even - 1) * even)
        lower = 1 / (1 + term * lower or TINY)
        upper = 1 + term / upper or TINY
        fraction *= upper * lower
        term = -(a + m) * (a_plus_b + m) * x / (even * (even + 1))
        lower = 1 / (1 + term * lower or TINY)
        upper = 1 + term / upper or TINY
        change = upper * lower
        fraction *= change
        if abs(change - 1) < 1e-14:
            break
    return front * fraction


def t_cdf(t: float, df: float) -> float:
    """P(T <= t) for Student's t (Student 1908): 1 - I_(df/(df+t^2))(df/2, 1/2) / 2 for t >= 0."""
    tail = t_p_value(t, df) / 2
    return 1 - tail if t >= 0 else tail


def t_p_value(t: float, df: float) -> float:
    """The two-sided p of t: I_(df/(df+t^2))(df/2, 1/2) (Abramowitz & Stegun 1964, 26.7.1)."""
    total = df + t * t
    return beta_cdf(df / total, df / 2, 0.5, complement=t * t / total)


@lru_cache(maxsize=4096)
def t_quantile(p: float, df: float) -> float:
    """The p-quantile of Student's t, by Newton's method.

    It starts at the normal quantile, which is nearer to 0. From there the distribution function is
    concave, so that the steps approach the solution without overshooting it.
    """
    if not (0 < p < 1 and df > 0):
        raise ValueError(f"quantile of t undefined for p={p}, df={df}")
    if p < 0.5:
        return -t_quantile(1 - p, df)
    t = NORMAL.inv_cdf(p)
    scale = exp(lgamma((df + 1) / 2) - lgamma(df / 2)) / sqrt(df * pi)
    for _ in range(200):
        step = (p - t_cdf(t, df)) / (scale * (1 + t * t / df) ** (-(df + 1) / 2))
        t += step
        if abs(step) < 1e-12 * max(1.0, t):
            break
    return t


def binomial_cdf(k: int, n: int, p: float) -> float:
    """P(X <= k) for X ~ Binomial(n, p): I_(1-p)(n - k, k + 1) (DLMF 8.17.5)."""
    if k < 0:
        return 0.0
    return 1.0 if k >= n else beta_cdf(1 - p, n - k, k + 1)
