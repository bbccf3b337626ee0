"""Agreement statistics against published examples, and the reasons given for undefined ones."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from review.quality.agreement import MissingReason, agreement, several_raters

pytestmark = pytest.mark.plain

Case = list[tuple[str, str]]


def cases(table: list[list[int]], names: str = "yn") -> list[Case]:
    """One case per pair of answers, from a table whose rows are the first rater's answers."""
    return [[(names[i], names[j])] for i, row in enumerate(table) for j, count in enumerate(row) for _ in range(count)]


@pytest.mark.parametrize(
    ("table", "raw", "kappa"), [([[40, 9], [6, 45]], 0.85, 0.70), ([[80, 10], [5, 5]], 0.85, 0.32)]
)
def test_kappa_collapses_when_answers_are_one_sided(table: list[list[int]], raw: float, kappa: float) -> None:
    # Feinstein & Cicchetti (1990), High agreement but low kappa I, J. Clin. Epidemiol. 43(6).
    result = agreement(cases(table), "yn")
    assert result.raw.value == pytest.approx(raw)
    assert result.kappa.value == pytest.approx(kappa, abs=0.005)


def test_ac1_does_not_collapse_when_answers_are_one_sided() -> None:
    # Gwet (2002), Kappa statistic is not satisfactory: 125 subjects, 118 / 5 / 2 / 0.
    result = agreement(cases([[118, 5], [2, 0]]), "yn")
    assert result.raw.value == pytest.approx(0.944)
    assert result.kappa.value == pytest.approx(-0.0234, abs=5e-5)
    assert result.ac1.value == pytest.approx(0.9408, abs=5e-5)
    pi = (123 + 120) / 250
    by_chance = 2 * pi * (1 - pi)
    assert result.ac1.value == pytest.approx((0.944 - by_chance) / (1 - by_chance))


def test_ac1_also_counts_unused_categories() -> None:
    two, three = (agreement(cases([[118, 5], [2, 0]]), categories).ac1.value for categories in ("yn", "yn?"))
    assert two is not None
    assert three is not None
    assert three > two


@pytest.mark.parametrize(
    ("first", "second", "names", "published"),
    [
        ("0100000010", "1110010000", "01", 0.095),  # section A, binary, two observers
        ("aabbdcccedda", "babbbccceddd", "abcde", 0.692),  # section B, nominal, two observers
    ],
)
def test_alpha_of_two_observers_matches_the_publication(first: str, second: str, names: str, published: float) -> None:
    # Krippendorff (2011), Computing Krippendorff's alpha-reliability.
    result = agreement([[pair] for pair in zip(first, second, strict=True)], names)
    assert result.alpha.value == pytest.approx(published, abs=0.0005)


def test_ordinal_alpha_matches_a_calculation_by_hand() -> None:
    # Krippendorff (2011), section D, ordinal metric:
    # delta(c, k) = (n_c / 2 + sum between + n_k / 2) squared.
    # Pairs 11 22 33 12: n = (3, 3, 2) of 8; delta(1,2) = 9, delta(2,3) = 2.5^2, delta(1,3) = 5.5^2.
    result = agreement([[("1", "1")], [("2", "2")], [("3", "3")], [("1", "2")]], "123", ordinal=True)
    observed = 2 * 9
    expected = 2 * (3 * 3 * 9 + 3 * 2 * 6.25 + 3 * 2 * 30.25)
    assert result.alpha.value == pytest.approx(1 - 7 * observed / expected)


PAIRS = st.lists(st.tuples(st.sampled_from("1234"), st.sampled_from("1234")), min_size=2, max_size=25)


@given(PAIRS, st.booleans())
def test_alpha_matches_the_krippendorff_library(pairs: Case, ordinal: bool) -> None:
    import krippendorff

    result = agreement([[pair] for pair in pairs], "1234", ordinal=ordinal).alpha
    if len({answer for pair in pairs for answer in pair}) == 1:
        assert result.value is None
        return
    data: Any = [[float(pair[side]) for pair in pairs] for side in (0, 1)]
    reference = krippendorff.alpha(data, level_of_measurement="ordinal" if ordinal else "nominal")
    assert result.value == pytest.approx(reference)


def test_without_pairs_every_figure_is_undefined_and_not_zero() -> None:
    result = agreement([[], []], "yn")
    assert (result.n, result.cases) == (0, 0)
    assert {
        (estimate.value, estimate.low, estimate.why)
        for estimate in (result.raw, result.kappa, result.ac1, result.alpha)
    } == {(None, None, MissingReason.NOTHING)}


def test_one_category_leaves_kappa_and_alpha_undefined() -> None:
    result = agreement(cases([[30, 0], [0, 0]]), "yn")
    assert (result.kappa.value, result.kappa.why) == (None, MissingReason.ONE_CATEGORY)
    assert (result.alpha.value, result.alpha.why) == (None, MissingReason.ONE_CATEGORY)
    assert result.raw.value == result.ac1.value == result.raw.high == result.ac1.high == 1
    assert result.raw.low == pytest.approx(0.9, abs=0.05)


def test_few_cases_have_figures_but_no_interval() -> None:
    result = agreement([[("y", "y"), ("n", "y"), ("n", "n")]] * 9, "yn")
    assert (result.n, result.cases) == (27, 9)
    assert result.raw.value == pytest.approx(2 / 3)
    assert (result.raw.low, result.raw.why) == (None, MissingReason.TOO_FEW)
    assert agreement([[("y", "y"), ("n", "y"), ("n", "n")]] * 10, "yn").raw.low is not None


def test_perfect_agreement_of_few_is_no_certainty() -> None:
    """Eleven equal answers leave what an exact interval of their share, .715 to 1, leaves."""
    for figure in ("kappa", "alpha", "ac1"):
        estimate = getattr(agreement(cases([[6, 0], [0, 5]]), "yn"), figure)
        assert (estimate.value, estimate.high) == (1, 1)
        assert 0.35 < estimate.low < 0.65


@pytest.mark.parametrize("raters", [2, 3, 7])
def test_several_raters_who_always_agree_are_no_certainty_either(raters: int) -> None:
    """No dissent in twelve items: by the exact bound, one item in five may have one (.221)."""
    result = several_raters([[raters, 0]] * 6 + [[0, raters]] * 6)
    for figure in (result.raw, result.fleiss, result.ac1, result.alpha):
        assert figure.value == figure.high == 1
        assert figure.low is not None
        assert 0.3 < figure.low < 0.97
    fewer = several_raters([[raters, 0]] * 6 + [[0, raters]] * 5)
    assert (fewer.fleiss.low, fewer.alpha.why) == (None, MissingReason.TOO_FEW), "where it would not hold"
    few, many = (several_raters([[raters, 0]] * n + [[0, raters]] * n).raw.low or 0 for n in (6, 60))
    assert few < many < 1


def test_a_single_category_has_no_interval() -> None:
    """Answers that could not differ say nothing of agreement."""
    result = several_raters([[3]] * 20)
    assert (result.raw.value, result.raw.low, result.raw.why) == (1, None, MissingReason.ONE_CATEGORY)
    assert agreement([[("y", "y")]] * 20, "y").raw.low is None


def test_the_interval_of_independent_answers_is_the_one_of_large_samples() -> None:
    """statsmodels gives kappa's asymptotic interval (Fleiss, Cohen & Everitt 1969)."""
    from statsmodels.stats.inter_rater import cohens_kappa

    table = [[2000, 300], [200, 1500]]
    theirs, ours = cohens_kappa(table), agreement(cases(table), "yn").kappa
    assert (ours.value, ours.low, ours.high) == pytest.approx(
        (theirs.kappa, theirs.kappa_low, theirs.kappa_upp), abs=3e-3
    )


# Krippendorff (2011), section C: four observers, twelve units, some not rated.
OBSERVERS = ("123321412...", "1233224125.3", ".3332342251.", "12332441251.")


def ratings_of(observers: tuple[str, ...], categories: str) -> list[list[int]]:
    """How many observers gave a unit each answer; a dot is no answer."""
    return [[unit.count(category) for category in categories] for unit in zip(*observers, strict=True)]


def test_several_raters_agree_as_irr_cac_says() -> None:
    """cac.raw4raters by gwet.ac1.raw, fleiss.kappa.raw and krippen.alpha.raw of irrCAC 1.0."""
    import krippendorff

    result = several_raters(ratings_of(OBSERVERS, "12345"))
    assert (result.n, result.cases) == (11, 12)
    assert result.raw.value == pytest.approx(0.81818, abs=5e-6)
    assert result.ac1.value == pytest.approx(0.77544, abs=5e-6)
    assert result.fleiss.value == pytest.approx(0.76117, abs=5e-6)
    assert result.alpha.value == pytest.approx(0.74342, abs=5e-6)
    data: Any = [[float("nan") if answer == "." else float(answer) for answer in row] for row in OBSERVERS]
    assert result.alpha.value == pytest.approx(krippendorff.alpha(data, level_of_measurement="nominal"))
    for estimate in (result.raw, result.ac1, result.fleiss, result.alpha):
        assert None not in (estimate.value, estimate.low, estimate.high)
        assert (estimate.low or 0) < (estimate.value or 0) < (estimate.high or 0) < 1


def test_several_raters_without_gaps_agree_as_statsmodels_says() -> None:
    import numpy as np
    from statsmodels.stats.inter_rater import fleiss_kappa

    random = np.random.default_rng(1)
    ratings = random.multinomial(4, [0.5, 0.3, 0.2], size=40)
    assert several_raters(ratings).fleiss.value == pytest.approx(fleiss_kappa(ratings))
    twice = several_raters(np.repeat(ratings, 2, axis=0), np.repeat(np.arange(40), 2))
    once = several_raters(ratings)
    assert (twice.fleiss.low, twice.fleiss.high) == pytest.approx((once.fleiss.low, once.fleiss.high), abs=0.02)


def test_two_of_several_raters_are_a_pair() -> None:
    """AC1 of two raters is the same by table and by item; so is the interval."""
    table = [[20, 3], [2, 15]]
    pair = agreement(cases(table), "yn").ac1
    ratings = [[2, 0]] * 20 + [[1, 1]] * 5 + [[0, 2]] * 15
    several = several_raters(ratings).ac1
    assert several.value == pytest.approx(pair.value)
    assert (several.low, several.high) == pytest.approx((pair.low, pair.high), abs=0.01)


def test_kappa_has_no_interval_where_nearly_all_answers_are_equal() -> None:
    result = agreement(cases([[99, 1], [0, 0]]), "yn")
    assert result.kappa.value == pytest.approx(0)
    assert (result.kappa.low, result.kappa.why) == (None, MissingReason.UNEVEN)
    assert result.raw.low is not None
    assert result.raw.high is not None
    assert result.raw.low < 0.99 < result.raw.high < 1


def test_intervals_contain_the_figure_are_reproducible_and_narrow_with_more_cases() -> None:
    small, large = cases([[20, 3], [2, 15]]), cases([[200, 30], [20, 150]])
    assert agreement(small, "yn") == agreement(small, "yn")
    widths = []
    for sample in (small, large):
        result = agreement(sample, "yn")
        for estimate in (result.raw, result.kappa, result.ac1, result.alpha):
            assert estimate.value is not None
            assert estimate.low is not None
            assert estimate.high is not None
            assert estimate.low < estimate.value < estimate.high
        assert result.kappa.high is not None
        assert result.kappa.low is not None
        widths.append(result.kappa.high - result.kappa.low)
    assert widths[1] == pytest.approx(widths[0] / 10**0.5, rel=0.2)


def test_whole_cases_are_resampled() -> None:
    # Ten answers that always agree or disagree together carry the information of one.
    single = agreement([[("y", "y")]] * 20 + [[("y", "n")]] * 10 + [[("n", "n")]] * 10, "yn")
    tenfold = agreement([[("y", "y")] * 10] * 20 + [[("y", "n")] * 10] * 10 + [[("n", "n")] * 10] * 10, "yn")
    assert tenfold.n == 10 * single.n
    assert (tenfold.raw.low, tenfold.raw.high) == pytest.approx((single.raw.low, single.raw.high))


def test_an_unknown_answer_is_refused() -> None:
    with pytest.raises(ValueError, match="maybe"):
        agreement([[("yes", "maybe")]], ["yes", "no"])
