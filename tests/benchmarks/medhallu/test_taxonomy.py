"""The four categories, and the facets of a sample: difficulty, category, MeSH branch."""

import pytest

from generation.recipes.recipe import Term, UnknownTerm
from mhb_site.benchmarks.medhallu import candidates, protocol
from mhb_site.benchmarks.medhallu.mesh import CHECK_TAGS, branches
from mhb_site.benchmarks.medhallu.taxonomy import TERMS, facets
from tests.benchmarks.medhallu.helpers import qa_draft

pytestmark = pytest.mark.plain
CONTENT = {"difficulty": "hard", "branches": ["C", "E"]}


def test_there_are_four_categories_with_definitions():
    assert [term.code for term in TERMS] == ["MQ", "II", "MP", "MF"]
    assert all(term.definition and not term.parent for term in TERMS)


def test_the_facets_are_difficulty_category_and_branches():
    assert facets("detection", ["II"], TERMS, CONTENT) == {
        "difficulty": ["hard"],
        "category": ["II"],
        "branch": ["C", "E"],
    }


def test_missing_content_gives_no_facet_values():
    assert facets("detection", ["MQ"], TERMS, {}) == {"difficulty": [], "category": ["MQ"], "branch": []}


def test_a_category_added_by_an_admin_is_accepted_and_an_unknown_one_refused():
    assert facets("detection", ["NEG"], (*TERMS, Term("NEG", "Negation")), CONTENT)["category"] == ["NEG"]
    with pytest.raises(UnknownTerm, match="'NEG'; known: MQ, II, MP, MF"):
        facets("detection", ["NEG"], TERMS, CONTENT)


def term(name, *trees):
    return {"kind": "term", "name": name, "trees": list(trees)}


def test_the_branch_is_the_most_frequent_letter_of_the_tree_numbers():
    terms = [term("Asthma", "C08.127.108", "C20.543.480.680.095"), term("Albuterol", "D02.033.415.510.500")]
    assert branches(["Asthma", "Albuterol"], terms) == ["C"]


AGES = {
    "Adult": "M01.060.116",
    "Aged": "M01.060.116.100",
    "Aged, 80 and over": "M01.060.116.100.080",
    "Middle Aged": "M01.060.116.630",
    "Young Adult": "M01.060.116.815",
    "Humans": "B01.050.150.900.649.313.988.400.112.400.400",
}


def test_check_tags_do_not_outvote_diseases():
    condition_terms = [term("Hip Fractures", "C26.531.750"), term("Osteoporosis", "C05.116.198.579")]
    terms = [*(term(name, tree) for name, tree in AGES.items()), *condition_terms]
    assert branches([*AGES, "Female", "Hip Fractures", "Osteoporosis"], terms) == ["C"]
    assert branches(["AGED", "middle  aged", "Humans", "Osteoporosis"], terms) == ["C"]
    assert branches(list(AGES), terms) == []


def test_other_headings_in_the_branches_of_check_tags_count():
    terms = [term("Nurses", "M01.526.485.650"), term("Zebrafish", "B01.050.150.900.493"), term("Adult", "M01.060.116")]
    assert branches(["Nurses", "Adult"], terms) == ["M"]
    assert branches(["Zebrafish"], terms) == ["B"]
    assert "history, 19th century" in CHECK_TAGS


def test_equally_frequent_letters_all_count():
    assert branches(["B", "A"], [term("A", "N01"), term("B", "E02")]) == ["E", "N"]


def test_only_the_headings_of_the_article_count_once_each_ignoring_case():
    terms = [
        term("Asthma", "C08"),
        term("Asthma", "C08"),
        term("Walking", "G11", "I03"),
        term("Other", "D01", "D02", "D03"),
    ]
    assert branches(["ASTHMA", "asthma ", "walking"], terms) == ["C", "G", "I"]


@pytest.mark.parametrize(("headings", "terms"), [([], [term("A", "C1")]), (["A"], []), (["Female"], [term("Female")])])
def test_headings_without_tree_numbers_have_no_branch(headings, terms):
    assert branches(headings, terms) == []


def test_detectors_are_told_of_each_category_what_the_generator_is_told() -> None:
    told = candidates.rules(qa_draft())["categories"]
    for prompt in protocol.DETECT.values():
        text = prompt.messages(question="", answer="", knowledge="", categories=protocol.CATEGORIES)[0].text
        for term in TERMS:
            assert term.definition in told
            assert f"- {term.label}: {term.definition}" in text
