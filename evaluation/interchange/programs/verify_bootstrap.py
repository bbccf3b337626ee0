"""The bootstrap over clusters, with the standard library alone; part of verify_run.py.

Draws the same random numbers as MHB does with numpy (PCG64, seed 20260101;
`Generator.multinomial`), so that intervals are reproduced exactly and not just approximately.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any

DRAWS = 2_000
MIN_DEFINED = 0.95  # share of draws in which a figure must be defined to have an interval
# The state of PCG64 after numpy seeds it with 20260101.
STATE, INCREMENT = 0x57350C51801F1CF4E3B30DDFCF764493, 0x7E4FFFFAB14E3E3BE0452F35133326EB
MULTIPLIER = 0x2360ED051FC65DA44385DF649FCCF645
MASK_128, MASK_64 = (1 << 128) - 1, (1 << 64) - 1
MAX_INVERSION = 30  # expected successes up to which numpy uses inversion
Rows = Sequence[Sequence[float]]


def uniforms() -> Iterator[float]:
    """The fixed sequence of random numbers in [0, 1), by PCG XSL RR 128/64 (O'Neill 2014)."""
    state = STATE
    while True:
        state = (state * MULTIPLIER + INCREMENT) & MASK_128
        mixed, turn = (state >> 64) ^ (state & MASK_64), state >> 122
        yield (((mixed >> turn | mixed << (64 - turn)) & MASK_64) >> 11) * 2.0**-53


def binomial(n: int, p: float, next_uniform: Callable[[], float]) -> int:
    """The number of successes in n trials with probability p."""
    if n == 0 or p == 0:
        return 0
    if p > 0.5:
        return n - binomial(n, 1 - p, next_uniform) if p < 1 else n
    return _by_inversion(n, p, next_uniform) if p * n <= MAX_INVERSION else _btpe(n, p, next_uniform)


@lru_cache(maxsize=100_000)
def _start(n: int, p: float) -> tuple[float, float, int]:
    q = 1 - p
    return q, math.exp(n * math.log(q)), int(min(n, n * p + 10 * math.sqrt(n * p * q + 1)))


def _by_inversion(n: int, p: float, next_uniform: Callable[[], float]) -> int:
    """A binomial number by inversion, searching upwards from 0."""
    q, first, most = _start(n, p)
    x, px, u = 0, first, next_uniform()
    while u > px:
        x += 1
        if x > most:
            x, px, u = 0, first, next_uniform()
        else:
            u -= px
            px = ((n - x + 1) * p * px) / (x * q)
    return x


@lru_cache(maxsize=100_000)
def _shape(n: int, p: float) -> tuple[float, ...]:
    q, middle = 1 - p, n * p + p
    m = math.floor(middle)
    p1 = math.floor(2.195 * math.sqrt(n * p * q) - 4.6 * q) + 0.5
    left, right, c = m + 0.5 - p1, m + 0.5 + p1, 0.134 + 20.5 / (15.3 + m)
    a = (middle - left) / (middle - left * p)
    slope_left = a * (1 + a / 2)
    a = (right - middle) / (right * q)
    slope_right = a * (1 + a / 2)
    p2 = p1 * (1 + 2 * c)
    p3 = p2 + c / slope_left
    return q, m, p1, left, right, c, slope_left, slope_right, p2, p3, p3 + c / slope_right


def _btpe(n: int, p: float, next_uniform: Callable[[], float]) -> int:
    """A binomial number by rejection, in the same steps as numpy.

    BTPE (Kachitvichyanukul & Schmeiser 1988, Commun. ACM 31).
    """
    q, m, p1, left, right, c, slope_left, slope_right, p2, p3, p4 = _shape(n, p)
    while True:
        u, v = next_uniform() * p4, next_uniform()
        if u <= p1:
            return math.floor(m + 0.5 - p1 * v + u)
        if u <= p2:
            x = left + (u - p1) / c
            v = v * c + 1 - abs(m - x + 0.5) / p1
            if v > 1:
                continue
            y = math.floor(x)
        elif v == 0:
            continue
        elif u <= p3:
            y = math.floor(left + math.log(v) / slope_left)
            if y < 0:
                continue
            v *= (u - p2) * slope_left
        else:
            y = math.floor(right - math.log(v) / slope_right)
            if y > n:
                continue
            v *= (u - p3) * slope_right
        if _is_accepted(n, p, q, int(m), y, v):
            return y


def _is_accepted(n: int, p: float, q: float, m: int, y: int, v: float) -> bool:
    """Whether v lies below the density at y, relative to that at m (steps 50 and 52 of BTPE)."""
    k, spread = abs(y - m), n * p * q
    if not 20 < k < spread / 2 - 1:
        odds, density = p / q, 1.0
        a = odds * (n + 1)
        for i in range(m + 1, y + 1):
            density *= a / i - odds
        for i in range(y + 1, m + 1):
            density /= a / i - odds
        return v <= density
    rho = (k / spread) * ((k * (k / 3 + 0.625) + 0.16666666666666666) / spread + 0.5)
    t, log_v = -k * k / (2 * spread), math.log(v) if v > 0 else -math.inf
    if log_v < t - rho:
        return True
    if log_v > t + rho:
        return False
    x1, f1, z, w = float(y + 1), float(m + 1), float(n + 1 - m), float(n - y + 1)
    bound = (m + 0.5) * math.log(f1 / x1) + (n - m + 0.5) * math.log(z / w) + (y - m) * math.log(w * p / (x1 * q))
    for term in (f1, z, x1, w):
        s = term * term
        bound += (13680 - (462 - (132 - (99 - 140 / s) / s) / s) / s) / term / 166320
    return log_v <= bound


def multinomial(n: int, chances: Sequence[float], next_uniform: Callable[[], float]) -> list[int]:
    """The counts of n items in categories with these probabilities."""
    counts, left, remaining = [0] * len(chances), n, 1.0
    for index, chance in enumerate(chances[:-1]):
        counts[index] = binomial(left, chance / remaining, next_uniform)
        left -= counts[index]
        if left <= 0:
            return counts
        remaining -= chance
    counts[-1] = left
    return counts


def resampled(rows: Rows) -> Iterator[list[float]]:
    """The column totals of each bootstrap draw. `rows`: one row per cluster."""
    kinds = sorted(Counter(map(tuple, rows)).items())
    chances, next_uniform = [count / len(rows) for _kind, count in kinds], uniforms().__next__
    columns = list(zip(*(kind for kind, _count in kinds)))  # noqa: B905 -- Python 3.9 has no strict
    for _draw in range(DRAWS):
        times = multinomial(len(rows), chances, next_uniform)
        yield [sum(map(float.__mul__, map(float, column), map(float, times))) for column in columns]


def ends(figures: Sequence[float]) -> tuple[float, float] | None:
    """The 2.5th and 97.5th percentile; None if too many draws have no figure."""
    if len(figures) < MIN_DEFINED * DRAWS:
        return None
    ordered, percentiles = sorted(figures), []
    for share in (0.025, 0.975):
        position = share * (len(ordered) - 1)
        low, high = ordered[int(position)], ordered[min(int(position) + 1, len(ordered) - 1)]
        percentiles.append(low + (high - low) * (position - int(position)))
    return percentiles[0], percentiles[1]


def _clip(value: float) -> float:
    return min(1.0, max(0.0, value))


def interval(rows: Rows, *, cut: bool) -> dict[str, Any]:
    """The interval of sum(hits) / sum(counted), from a row (hits, counted) per cluster.

    `cut`: whether to clip it to 0 and 1.
    """
    limits = ends([hits / counted for hits, counted in resampled(rows) if counted > 0])
    if limits is None:
        return {"method": "too-few", "low": None, "high": None}
    low, high = map(_clip, limits) if cut else limits
    return {"method": "cluster-bootstrap", "low": low, "high": high}


def difference(rows: Rows, minimum: int) -> dict[str, Any]:
    """Interval and p of the first rate minus the second.

    `rows`: (hits, counted, hits, counted) of each shared cluster.
    """
    if len(rows) < max(1, minimum):
        return {"low": None, "high": None, "p": None}
    figures = [_clip(one / m) - _clip(other / n) for one, m, other, n in resampled(rows) if m > 0 and n > 0]
    limits = ends(figures)
    if limits is None:
        return {"low": None, "high": None, "p": None}
    beyond = min(sum(figure <= 0 for figure in figures), sum(figure >= 0 for figure in figures))
    return {"low": limits[0], "high": limits[1], "p": min(1.0, 2 * (beyond + 1) / (len(figures) + 1))}
