"""Statistics of agreement against published worked examples, and what is said where there is nothing to say."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from review.quality.agreement import MissingReason, agreement

pytestmark = pytest.mark.plain

Case = list[tuple[str, str]]


def cases(table: list[list[int]], names: str = "yn") -> list[Case]:
    """One case a pair, from a table whose rows are the first rater's answers."""
    return [[(names[i], names[j])] for i, row in enumerate(table) for j, count in enumerate(row) for _ in range(count)]


@pytest.mark.parametrize(
    ("table", "raw", "kappa"), [([[40, 9], [6, 45]], 0.85, 0.70), ([[80, 10], [5, 5]], 0.85, 0.32)]
)
def test_kappa_collapses_where_answers_are_one_sided(table: list[list[int]], raw: float, kappa: float) -> None:
    # Feinstein & Cicchetti (1990), High agreement but low kappa I, J. Clin. Epidemiol. 43(6).
    found = agreement(cases(table), "yn")
    assert found.raw.value == pytest.approx(raw)
    assert found.kappa.value == pytest.approx(kappa, abs=0.005)


def test_ac1_does_not_collapse() -> None:
    # Gwet (2002), Kappa statistic is not satisfactory: 125 subjects, 118 / 5 / 2 / 0.
    found = agreement(cases([[118, 5], [2, 0]]), "yn")
    assert found.raw.value == pytest.approx(0.944)
    assert found.kappa.value == pytest.approx(-0.0234, abs=5e-5)
    assert found.ac1.value == pytest.approx(0.9408, abs=5e-5)
    pi = (123 + 120) / 250
    by_chance = 2 * pi * (1 - pi)
    assert found.ac1.value == pytest.approx((0.944 - by_chance) / (1 - by_chance))


def test_ac1_counts_the_categories_that_nobody_used() -> None:
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
def test_alpha_of_two_observers(first: str, second: str, names: str, published: float) -> None:
    # Krippendorff (2011), Computing Krippendorff's alpha-reliability.
    found = agreement([[pair] for pair in zip(first, second, strict=True)], names)
    assert found.alpha.value == pytest.approx(published, abs=0.0005)


def test_ordinal_alpha_by_hand() -> None:
    # Krippendorff (2011), section D's ordinal metric: delta(c, k) = (n_c / 2 + what lies between + n_k / 2) squared.
    # Pairs 11 22 33 12: n = (3, 3, 2) of 8; delta(1,2) = 9, delta(2,3) = 2.5^2, delta(1,3) = 5.5^2.
    found = agreement([[("1", "1")], [("2", "2")], [("3", "3")], [("1", "2")]], "123", ordinal=True)
    observed = 2 * 9
    expected = 2 * (3 * 3 * 9 + 3 * 2 * 6.25 + 3 * 2 * 30.25)
    assert found.alpha.value == pytest.approx(1 - 7 * observed / expected)


PAIRS = st.lists(st.tuples(st.sampled_from("1234"), st.sampled_from("1234")), min_size=2, max_size=25)


@given(PAIRS, st.booleans())
def test_alpha_is_the_librarys(pairs: Case, ordinal: bool) -> None:
    import krippendorff

    found = agreement([[pair] for pair in pairs], "1234", ordinal=ordinal, replicates=1).alpha
    if len({answer for pair in pairs for answer in pair}) == 1:
        assert found.value is None
        return
    data: Any = [[float(pair[side]) for pair in pairs] for side in (0, 1)]
    theirs = krippendorff.alpha(data, level_of_measurement="ordinal" if ordinal else "nominal")
    assert found.value == pytest.approx(theirs)


def test_nothing_answered_twice_is_said_and_not_zero() -> None:
    found = agreement([[], []], "yn")
    assert (found.n, found.cases) == (0, 0)
    assert {(e.value, e.low, e.why) for e in (found.raw, found.kappa, found.ac1, found.alpha)} == {
        (None, None, MissingReason.NOTHING)
    }


def test_one_category_leaves_kappa_and_alpha_undefined() -> None:
    found = agreement(cases([[30, 0], [0, 0]]), "yn")
    assert (found.kappa.value, found.kappa.why) == (None, MissingReason.ONE_CATEGORY)
    assert (found.alpha.value, found.alpha.why) == (None, MissingReason.ONE_CATEGORY)
    assert (found.raw.value, found.raw.low, found.raw.why) == (1, None, MissingReason.NO_VARIATION)
    assert found.ac1.value == 1


def test_one_case_has_figures_and_no_interval() -> None:
    found = agreement([[("y", "y"), ("n", "y"), ("n", "n")]], "yn")
    assert (found.n, found.cases) == (3, 1)
    assert found.raw.value == pytest.approx(2 / 3)
    assert (found.raw.low, found.raw.why) == (None, MissingReason.ONE_CASE)


def test_where_resamples_lose_a_category_there_is_no_interval_for_kappa() -> None:
    found = agreement(cases([[99, 1], [0, 0]]), "yn")
    assert found.kappa.value == pytest.approx(0)
    assert (found.kappa.low, found.kappa.why) == (None, MissingReason.UNEVEN)
    assert found.raw.low is not None
    assert found.raw.low < 0.99 < 1 == found.raw.high


def test_intervals_hold_the_figure_repeat_and_narrow() -> None:
    small, large = cases([[20, 3], [2, 15]]), cases([[200, 30], [20, 150]])
    assert agreement(small, "yn") == agreement(small, "yn")
    widths = []
    for those in (small, large):
        found = agreement(those, "yn")
        for estimate in (found.raw, found.kappa, found.ac1, found.alpha):
            assert estimate.value is not None
            assert estimate.low is not None
            assert estimate.high is not None
            assert estimate.low < estimate.value < estimate.high
        assert found.kappa.high is not None
        assert found.kappa.low is not None
        widths.append(found.kappa.high - found.kappa.low)
    assert widths[1] == pytest.approx(widths[0] / 10**0.5, rel=0.2)


def test_cases_are_resampled_whole() -> None:
    # Ten answers that always agree or disagree together are worth one.
    alone = agreement([[("y", "y")]] * 20 + [[("y", "n")]] * 10 + [[("n", "n")]] * 10, "yn")
    tenfold = agreement([[("y", "y")] * 10] * 20 + [[("y", "n")] * 10] * 10 + [[("n", "n")] * 10] * 10, "yn")
    assert tenfold.n == 10 * alone.n
    assert (tenfold.raw.low, tenfold.raw.high) == pytest.approx((alone.raw.low, alone.raw.high))


def test_an_unknown_answer_is_refused() -> None:
    with pytest.raises(ValueError, match="maybe"):
        agreement([[("yes", "maybe")]], ["yes", "no"])
