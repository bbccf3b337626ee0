"""The bootstrap over clusters with the standard library alone; part of verify_run.py, which says what it checks.

The same random numbers as MHB draws with numpy (PCG64, seed 20260101; `Generator.multinomial`), so that an interval comes out
as it was: not one that is close to it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any

DRAWS = 2_000
DEFINED = 0.95  # the share of draws in which a figure must be defined for its interval to be given
# PCG64 as numpy seeds it with 20260101.
STATE, INCREMENT = 0x57350C51801F1CF4E3B30DDFCF764493, 0x7E4FFFFAB14E3E3BE0452F35133326EB
MULTIPLIER = 0x2360ED051FC65DA44385DF649FCCF645
WHOLE, HALF = (1 << 128) - 1, (1 << 64) - 1
SMALL = 30  # expected successes up to which numpy searches from 0
Rows = Sequence[Sequence[float]]


def uniforms() -> Iterator[float]:
    """Random numbers of [0, 1), always the same ones: PCG XSL RR 128/64 (O'Neill 2014)."""
    state = STATE
    while True:
        state = (state * MULTIPLIER + INCREMENT) & WHOLE
        mixed, turn = (state >> 64) ^ (state & HALF), state >> 122
        yield (((mixed >> turn | mixed << (64 - turn)) & HALF) >> 11) * 2.0**-53


def binomial(n: int, p: float, following: Callable[[], float]) -> int:
    """How many of n succeed, each with the chance p."""
    if n == 0 or p == 0:
        return 0
    if p > 0.5:
        return n - binomial(n, 1 - p, following) if p < 1 else n
    return _searched(n, p, following) if p * n <= SMALL else _btpe(n, p, following)


@lru_cache(maxsize=100_000)
def _start(n: int, p: float) -> tuple[float, float, int]:
    q = 1 - p
    return q, math.exp(n * math.log(q)), int(min(n, n * p + 10 * math.sqrt(n * p * q + 1)))


def _searched(n: int, p: float, following: Callable[[], float]) -> int:
    """By inversion, from 0 upwards."""
    q, first, most = _start(n, p)
    x, px, u = 0, first, following()
    while u > px:
        x += 1
        if x > most:
            x, px, u = 0, first, following()
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


def _btpe(n: int, p: float, following: Callable[[], float]) -> int:
    """By rejection: BTPE (Kachitvichyanukul & Schmeiser 1988, Commun. ACM 31), step by step as numpy does it."""
    q, m, p1, left, right, c, slope_left, slope_right, p2, p3, p4 = _shape(n, p)
    while True:
        u, v = following() * p4, following()
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
        if _is_taken(n, p, q, int(m), y, v):
            return y


def _is_taken(n: int, p: float, q: float, m: int, y: int, v: float) -> bool:
    """Steps 50 and 52 of BTPE: whether v lies below the density at y, relative to that at m."""
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
    for each in (f1, z, x1, w):
        s = each * each
        bound += (13680 - (462 - (132 - (99 - 140 / s) / s) / s) / s) / each / 166320
    return log_v <= bound


def multinomial(n: int, chances: Sequence[float], following: Callable[[], float]) -> list[int]:
    """n things put into kinds with these chances."""
    found, left, remaining = [0] * len(chances), n, 1.0
    for at, chance in enumerate(chances[:-1]):
        found[at] = binomial(left, chance / remaining, following)
        left -= found[at]
        if left <= 0:
            return found
        remaining -= chance
    found[-1] = left
    return found


def resampled(rows: Rows) -> Iterator[list[float]]:
    """The totals of the columns in each draw of as many clusters as there are; `rows`: one a cluster."""
    kinds = sorted(Counter(map(tuple, rows)).items())
    chances, following = [count / len(rows) for _kind, count in kinds], uniforms().__next__
    columns = list(zip(*(kind for kind, _count in kinds)))  # noqa: B905 -- Python 3.9 has no strict
    for _draw in range(DRAWS):
        times = multinomial(len(rows), chances, following)
        yield [sum(map(float.__mul__, map(float, column), map(float, times))) for column in columns]


def ends(figures: Sequence[float]) -> tuple[float, float] | None:
    """The 2.5th and 97.5th percentile; None where too many draws have no figure."""
    if len(figures) < DEFINED * DRAWS:
        return None
    ordered, found = sorted(figures), []
    for share in (0.025, 0.975):
        at = share * (len(ordered) - 1)
        low, high = ordered[int(at)], ordered[min(int(at) + 1, len(ordered) - 1)]
        found.append(low + (high - low) * (at - int(at)))
    return found[0], found[1]


def _cut(value: float) -> float:
    return min(1.0, max(0.0, value))


def interval(rows: Rows, *, cut: bool) -> dict[str, Any]:
    """The interval of sum(hits) / sum(counted) over clusters, a row (hits, counted) each. `cut`: at 0 and 1."""
    found = ends([hits / counted for hits, counted in resampled(rows) if counted > 0])
    if found is None:
        return {"method": "too-few", "low": None, "high": None}
    low, high = map(_cut, found) if cut else found
    return {"method": "cluster-bootstrap", "low": low, "high": high}


def difference(rows: Rows, minimum: int) -> dict[str, Any]:
    """Interval and p of the first rate less the second over shared clusters, a row (hits, counted, hits, counted) each."""
    if len(rows) < max(1, minimum):
        return {"low": None, "high": None, "p": None}
    figures = [_cut(one / m) - _cut(other / n) for one, m, other, n in resampled(rows) if m > 0 and n > 0]
    found = ends(figures)
    if found is None:
        return {"low": None, "high": None, "p": None}
    beyond = min(sum(each <= 0 for each in figures), sum(each >= 0 for each in figures))
    return {"low": found[0], "high": found[1], "p": min(1.0, 2 * (beyond + 1) / (len(figures) + 1))}
