"""Citations: their required fields, and when two of them are the same."""

from dataclasses import replace
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from review.rules.citations import (
    Citation,
    citation_faults,
    identity,
    latest_day,
    locate_passage,
    normalise,
    recognise_kind,
)

TODAY = date(2026, 3, 1)
DOI = Citation("doi", "10.1000/ABC.1", "", "It lowers the risk.", "2026-02-28")
GUIDELINE = Citation("guideline", "Guideline on dizziness", "4.2", "Do not give it.", "2026-03-01")


@pytest.mark.parametrize(
    ("kind", "reference", "bare"),
    [
        ("doi", "10.1000/abc.1", "10.1000/abc.1"),
        ("doi", " doi: 10.1000/ABC.1 ", "10.1000/abc.1"),
        ("doi", "https://doi.org/10.1000/abc.1", "10.1000/abc.1"),
        ("doi", "http://dx.doi.org/10.1000/abc.1.", "10.1000/abc.1"),
        ("doi", "https://doi.org/10.1002/(sici)1097%3C1%3E3.0.co;2-x?x=1", "10.1002/(sici)1097<1>3.0.co;2-x"),
        ("doi", "10.1000.10/x", "10.1000.10/x"),
        ("pmid", "12345678", "12345678"),
        ("pmid", "PMID: 123", "123"),
        ("pmid", "https://pubmed.ncbi.nlm.nih.gov/123/", "123"),
        ("pmid", "https://www.ncbi.nlm.nih.gov/pubmed/123", "123"),
        ("doi", "Roe A. Salt. Heart. 2020;1:2. doi: 10.1000/ABC.1. Epub 2020. PMID: 123.", "10.1000/abc.1"),
        ("doi", "Roe A. Salt. Heart 2020. https://doi.org/10.1000/abc.1", "10.1000/abc.1"),
        ("pmid", "Roe A. Salt. Heart. 2020;1:2.\nPMID: 123; PMCID: PMC9.", "123"),
        ("url", "HTTPS://Example.ORG/A?b=C", "https://example.org/A?b=C"),
        ("guideline", "  Guideline  on\ndizziness ", "Guideline on dizziness"),
    ],
)
def test_references_are_accepted_as_people_paste_them(kind: str, reference: str, bare: str) -> None:
    cited = replace(GUIDELINE, kind=kind, reference=reference)
    assert citation_faults([cited], today=TODAY) == []
    assert normalise(cited).reference == bare
    assert recognise_kind(reference) == kind


@pytest.mark.parametrize(
    ("kind", "reference"),
    [
        ("doi", "abc"),
        ("doi", "10.1/abc"),
        ("doi", "10.1000/"),
        ("doi", "10.1000/a b"),
        ("doi", "doi: 10.1000/a b"),
        ("doi", "10.\u0661\u0661\u0661\u0661/abc"),
        ("doi", "https://example.org/10.1000/abc"),
        ("pmid", "0"),
        ("pmid", "123456789"),
        ("pmid", "Roe A. Salt. PMID: 123456789"),
        ("pmid", "\u0661\u0662\u0663"),
        ("pmid", "PMC123"),
        ("url", "example.org"),
        ("url", "ftp://example.org/a"),
        ("url", "javascript:alert(1)"),
        ("url", "https://localhost/a"),
        ("url", "https://example..org"),
        ("url", "https://me:secret@example.org"),
        ("url", "https://[::1"),
        ("url", "https://example.org:port/"),
        ("url", "https://example.org/a b"),
    ],
)
def test_malformed_references_are_refused(kind: str, reference: str) -> None:
    assert citation_faults([replace(DOI, kind=kind, reference=reference)], today=TODAY) == [
        ("citation.1.reference", "citation-malformed")
    ]


@pytest.mark.parametrize(
    ("cited", "fault"),
    [
        (replace(DOI, kind=""), ("citation.1.kind", "citation-incomplete")),
        (replace(DOI, kind="rumour"), ("citation.1.kind", "citation-malformed")),
        (replace(GUIDELINE, kind="book", section=""), ("citation.1.section", "citation-incomplete")),
        (Citation("search", "", "", "Neurostatin", "2026-03-01"), ("citation.1.reference", "citation-incomplete")),
        (Citation("search", "PubMed", "", " ", "2026-03-01"), ("citation.1.passage", "citation-incomplete")),
        (Citation("search", "PubMed", "", "Neurostatin", ""), ("citation.1.read_on", "citation-incomplete")),
        (replace(DOI, reference=" "), ("citation.1.reference", "citation-incomplete")),
        (replace(GUIDELINE, reference=""), ("citation.1.reference", "citation-incomplete")),
        (replace(GUIDELINE, section=" "), ("citation.1.section", "citation-incomplete")),
        (replace(DOI, passage="\n"), ("citation.1.passage", "citation-incomplete")),
        (replace(DOI, read_on=""), ("citation.1.read_on", "citation-incomplete")),
        (replace(DOI, read_on="28.2.2026"), ("citation.1.read_on", "citation-incomplete")),
        (replace(DOI, read_on="20260228"), ("citation.1.read_on", "citation-incomplete")),
        (replace(DOI, read_on="2026-02-30"), ("citation.1.read_on", "citation-incomplete")),
        (replace(DOI, read_on="2026-03-02"), ("citation.1.read_on", "citation-incomplete")),
    ],
)
def test_every_missing_or_wrong_field_is_reported(cited: Citation, fault: tuple[str, str]) -> None:
    assert citation_faults([cited], today=TODAY) == [fault]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (DOI, replace(DOI, reference="https://doi.org/10.1000/abc.1", passage="Another line.")),
        (DOI, replace(DOI, kind="url", reference="https://dx.doi.org/10.1000/abc.1")),
        (
            replace(DOI, kind="pmid", reference="PMID 123"),
            replace(DOI, kind="url", reference="https://pubmed.ncbi.nlm.nih.gov/123/"),
        ),
        (
            replace(DOI, kind="url", reference="http://www.example.org/a/"),
            replace(DOI, kind="url", reference="https://EXAMPLE.org/a"),
        ),
        (GUIDELINE, replace(GUIDELINE, reference="guideline ON  dizziness", section=" 4.2 ")),
    ],
)
def test_a_citation_given_twice_is_reported(one: Citation, other: Citation) -> None:
    assert citation_faults([one, other], today=TODAY) == [("citation.2.reference", "citation-duplicate")]


def test_another_section_is_another_citation() -> None:
    assert citation_faults([GUIDELINE, replace(GUIDELINE, section="4.3")], today=TODAY) == []


def test_a_source_may_be_read_on_the_latest_current_day_on_earth() -> None:
    assert citation_faults([replace(DOI, read_on=latest_day().isoformat())]) == []
    assert citation_faults([replace(DOI, read_on="9999-01-01")]) == [("citation.1.read_on", "citation-incomplete")]


@given(
    st.lists(
        st.builds(
            Citation,
            st.sampled_from(["doi", "pmid", "url", "guideline", "x", ""]),
            st.text(),
            st.text(),
            st.text(),
            st.text(),
        ),
        max_size=4,
    )
)
def test_any_input_is_checked_and_every_fault_names_a_field(citations: list[Citation]) -> None:
    faults = citation_faults(citations, today=TODAY)
    assert {field.split(".")[0] for field, _code in faults} <= {"citation"}
    assert {int(field.split(".")[1]) for field, _code in faults} <= set(range(1, len(citations) + 1))
    assert len(set(faults)) == len(faults)
    for cited in citations:
        assert normalise(normalise(cited)) == normalise(cited)
        assert identity(normalise(cited)) == identity(cited)


@given(
    suffix=st.from_regex(r"[a-zA-Z0-9()/:;_-]{1,20}", fullmatch=True),
    prefix=st.sampled_from(["", "doi:", "https://doi.org/"]),
)
def test_a_doi_is_the_same_however_it_is_prefixed(suffix: str, prefix: str) -> None:
    bare = f"10.1234/x{suffix}x"
    prefixed = replace(DOI, reference=prefix + bare)
    assert citation_faults([prefixed], today=TODAY) == []
    assert identity(prefixed) == identity(replace(DOI, reference=bare.upper()))


@pytest.mark.parametrize(
    ("reference", "kind"),
    [
        ("ISBN 978-3-16-148410-0", "book"),
        ("isbn: 316148410X", "book"),
        ("Searched: PubMed", "search"),
        ("not found in the register", "search"),
        ("检索PubMed", "search"),
        ("Searching for sugar: a textbook", "book"),
        ("诊断学（第9版教材）", "book"),
        ("高血压防治指南", "guideline"),
        ("ESC consensus 2023", "guideline"),
        ("Dr Roe, personal communication", ""),
        ("", ""),
        ("10.1000/isbn", "doi"),
    ],
)
def test_a_kind_is_recognised_by_its_words_and_otherwise_asked(reference: str, kind: str) -> None:
    assert recognise_kind(reference) == kind


def test_searches_for_different_terms_are_different_sources() -> None:
    one = Citation("search", "PubMed", "", "Neurostatin", "2026-03-01")
    other = replace(one, passage="Neurostatin dose")
    assert citation_faults([one, other], today=TODAY) == []
    assert citation_faults([one, replace(one, passage="NEUROSTATIN ")], today=TODAY) == [
        ("citation.2.reference", "citation-duplicate")
    ]


TEXTS = {"1.1": "Take Neurostatin.", "1.2": "Neurostatin helps."}


@pytest.mark.parametrize(
    ("section", "place"),
    [
        ("", "1.1:5-16"),
        ("1.2", "1.2:0-11"),
        ("1.2:0-11", "1.2:0-11"),
        ("1.2:3-14", "1.2:0-11"),
        ("9.9:0-1", "1.1:5-16"),
    ],
)
def test_a_quote_from_the_case_gets_its_place(section: str, place: str) -> None:
    located = locate_passage(Citation("case", "Talk", section, "Neurostatin", "2026-03-01"), TEXTS)
    assert located is not None
    assert located.section == place


def test_a_quote_that_is_not_in_the_case_has_no_place() -> None:
    assert locate_passage(Citation("case", "Talk", "1.1:5-16", "Neurostatine", "2026-03-01"), TEXTS) is None
    assert locate_passage(GUIDELINE, TEXTS) == GUIDELINE
