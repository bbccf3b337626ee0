"""The four categories, and by what a sample is counted: difficulty, category, branch of MeSH."""

import pytest

from generation.recipe import Term
from mhb_site.benchmarks.medhallu.mesh import branches
from mhb_site.benchmarks.medhallu.taxonomy import TERMS, UnknownCategory, facets

pytestmark = pytest.mark.plain
CONTENT = {"difficulty": "hard", "branches": ["C", "E"]}


def test_there_are_four_categories_each_defined():
    assert [term.code for term in TERMS] == ["MQ", "II", "MP", "MF"]
    assert all(term.definition and not term.parent for term in TERMS)


def test_a_sample_is_counted_by_difficulty_category_and_branches():
    assert facets("detection", ["II"], TERMS, CONTENT) == {
        "difficulty": ["hard"],
        "category": ["II"],
        "branch": ["C", "E"],
    }


def test_what_is_not_known_is_no_value():
    assert facets("detection", ["MQ"], TERMS, {}) == {"difficulty": [], "category": ["MQ"], "branch": []}


def test_a_category_of_an_admin_is_one_and_an_unknown_one_is_not():
    assert facets("detection", ["NEG"], (*TERMS, Term("NEG", "Negation")), CONTENT)["category"] == ["NEG"]
    with pytest.raises(UnknownCategory, match="'NEG'; known: MQ, II, MP, MF"):
        facets("detection", ["NEG"], TERMS, CONTENT)


def term(name, *trees):
    return {"kind": "term", "name": name, "trees": list(trees)}


def test_the_branch_is_the_letter_of_most_tree_numbers():
    terms = [term("Asthma", "C08.127.108", "C20.543.480.680.095"), term("Albuterol", "D02.033.415.510.500")]
    assert branches(["Asthma", "Albuterol"], terms) == ["C"]


def test_letters_that_are_equally_frequent_all_count():
    assert branches(["B", "A"], [term("A", "N01"), term("B", "E02")]) == ["E", "N"]


def test_only_the_articles_own_headings_count_each_once_whatever_their_case():
    terms = [
        term("Asthma", "C08"),
        term("Asthma", "C08"),
        term("Walking", "G11", "I03"),
        term("Other", "D01", "D02", "D03"),
    ]
    assert branches(["ASTHMA", "asthma ", "walking"], terms) == ["C", "G", "I"]


@pytest.mark.parametrize(("headings", "terms"), [([], [term("A", "C1")]), (["A"], []), (["Female"], [term("Female")])])
def test_without_a_place_in_the_tree_there_is_no_branch(headings, terms):
    assert branches(headings, terms) == []
