"""Student's t, its noncentral form and the binomial distribution: scipy's, of floats or arrays.

scipy is loaded when first needed, as it takes longer to import than the site takes to start.
"""

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Number = TypeVar("Number", float, NDArray[np.float64])


def t_p_value(t: Number, df: Number) -> Number:
    """The two-sided p of t."""
    from scipy import special

    p: Number = 2 * special.stdtr(df, -abs(t))
    return p


def t_quantile(p: float, df: Number) -> Number:
    """The p-quantile of Student's t."""
    from scipy import special

    quantile: Number = special.stdtrit(df, p)
    return quantile


def noncentral_t_cdf(t: float, df: float, shift: float) -> float:
    """P(T <= t) for the noncentral t distribution; the normal limit where scipy's series fails."""
    from scipy import special

    value = float(special.nctdtr(df, shift, t))
    if 0 <= value <= 1:
        return value
    return float(special.ndtr(t - shift))


def binomial_cdf(k: int, n: int, p: float) -> float:
    """P(X <= k) for X ~ Binomial(n, p)."""
    from scipy import special

    if k < 0:
        return 0.0
    if k >= n:
        return 1.0
    return float(special.bdtr(k, n, p))
