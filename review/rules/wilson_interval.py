"""The Wilson score interval of a proportion."""

from math import sqrt

Z95 = 1.959963984540054  # two-sided 95 % quantile of the normal distribution


def wilson(hits: float, n: float, z: float = Z95) -> tuple[float, float]:
    """The Wilson score interval of a proportion.

    Raises ValueError unless 0 <= hits <= n and n > 0.
    """
    if not 0 <= hits <= n or n == 0:
        raise ValueError(f"no proportion: {hits} of {n}")
    share = hits / n
    centre = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    # At the ends of the scale, both terms are equal and differ only by rounding.
    return (max(0.0, centre - half) if hits else 0.0), (min(1.0, centre + half) if hits < n else 1.0)
