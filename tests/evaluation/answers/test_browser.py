"""The response browser: filters, search in answers and explanations, models side by side."""

from typing import Any
from urllib.parse import urlencode

import pytest
from django.db import connection
from django.test import Client
from django.urls import reverse

from evaluation.answers import queries, search
from evaluation.models import Judgment, Response, Run, Vote
from generation.models import Release
from generation.models.work import Work
from review.models import User
from review.rules.permissions import OPERATOR
from review.templatetags.reading import finds
from tests.api.conftest import Api, api
from tests.engine import bare_release
from tests.evaluation.test_pages import HOSTILE, SAMPLES, judged_run, model, query_count, text_of, with_facets
from tests.populations import population

__all__ = ["api"]

pytestmark = [pytest.mark.django_db, pytest.mark.both]
Page = Any
CHINESE = "患者有高血压病史，建议服用阿司匹林。"


@pytest.fixture
def release(db: None) -> Release:
    """The release of `run` for a test that uses both fixtures, otherwise a new one."""
    return Release.objects.first() or bare_release(*SAMPLES)


@population
def run() -> Run:
    """Two models on three samples. The first answer of `one` is Chinese, the last is a refusal."""
    run = judged_run(bare_release(*SAMPLES), "one", "two")
    first = run.responses.filter(endpoint__name="one").order_by("pk")[0]
    Response.objects.filter(pk=first.pk).update(text=CHINESE, outcome="answered")
    Response.objects.filter(run=run).exclude(pk=first.pk).update(text="Take Metformin twice a day; 50% of patients do.")
    last = run.responses.order_by("-pk")[0]
    Response.objects.filter(pk=last.pk).update(text="", outcome="refused")
    judgment = (
        Judgment.objects.filter(run=run, response__endpoint__name="two").exclude(explanation="").order_by("pk")[0]
    )
    Judgment.objects.filter(pk=judgment.pk).update(explanation="The dose of Cephalorin isn't questioned; 剂量未知。")
    return run


def matches(run: Run, text: str) -> set[tuple[int, ...]]:
    """The (response, rubric) pairs that a search finds."""
    return {(row.response_id, row.rubric_id) for row in queries.judgments(run, OPERATOR, text=text)}


def pairs(run: Run, **filters: Any) -> set[tuple[int, ...]]:
    """The (response, rubric) pairs of the judgments that match these filters."""
    return set(Judgment.objects.filter(run=run, **filters).values_list("response_id", "rubric_id"))


@pytest.mark.parametrize("term", ["高血压", "血压", "阿司匹林", "高血压 阿司匹林", "林", "建议服用"])
def test_chinese_is_found_within_a_clause(run: Run, term: str) -> None:
    assert matches(run, term) == pairs(run, response__text=CHINESE)


@pytest.mark.parametrize("term", ["压高", "高血脂", "血压 青霉素", "metformin 高血压"])
def test_a_term_that_no_text_contains_is_not_found(run: Run, term: str) -> None:
    assert matches(run, term) == set()


def test_every_word_must_match_regardless_of_case(run: Run) -> None:
    english = pairs(run, response__text__startswith="Take Metformin")
    assert english
    assert matches(run, "metformin") == matches(run, "DAY metformin") == english
    assert matches(run, "metformin insulin") == set()
    assert matches(run, "Cephalorin") == matches(run, "剂量") == pairs(run, explanation__contains="Cephalorin")


def test_the_index_follows_changes_of_texts(run: Run) -> None:
    row = run.responses.get(text=CHINESE)
    row.text = "Now in English, about sepsis."
    row.save()
    assert matches(run, "高血压") == set()
    assert matches(run, "sepsis") == pairs(run, response=row)
    row.text = ""
    row.save()
    assert matches(run, "sepsis") == set()
    Judgment.objects.filter(explanation__contains="Cephalorin").delete()
    assert matches(run, "Cephalorin") == set()
    if connection.vendor == "sqlite":
        with connection.cursor() as cursor:
            for table in ("words_evaluation_response_text", "words_evaluation_judgment_explanation"):
                cursor.execute(f"INSERT INTO {table} ({table}) VALUES ('integrity-check')")


TYPED = [
    '"', "'", "a OR", "NOT", "* *", "(", "text:x", "NEAR(a b)", "a & | !", ":*", "'; DROP TABLE evaluation_run; --", "%", "_",
    "\\", "^", "{a}", '"高', "高:*", "-x", "%s", "\N{GRINNING FACE}", "x" * 900, "a " * 300,
]  # fmt: skip


@pytest.mark.parametrize("typed", TYPED)
def test_any_typed_text_is_treated_as_data(run: Run, admin: Client, typed: str) -> None:
    search.search(run, typed, OPERATOR)
    page = admin.get(reverse("evaluation:judgments", args=[run.pk]), {"text": typed})
    assert page.status_code == 200
    assert Run.objects.filter(pk=run.pk).exists()


def test_a_search_counts_and_marks_its_finds(run: Run, admin: Client) -> None:
    page = admin.get(reverse("evaluation:judgments", args=[run.pk]), {"text": "metformin"})
    count = len(matches(run, "metformin"))
    assert page.context["found"] == count > 0
    assert f"{count} matches" in " ".join(text_of(page).split())
    assert "<mark>metformin</mark>" in text_of(page).lower()
    assert finds('<b> & 5 "', 'b> "').count("<mark>") == 2
    assert finds('<b> & 5 "', 'b> "') == "&lt;<mark>b&gt;</mark> &amp; 5 <mark>&quot;</mark>"


def test_wildcards_are_ordinary_characters(run: Run) -> None:
    assert matches(run, "_") == set()
    if connection.vendor == "sqlite":  # PostgreSQL does not index signs
        assert matches(run, "%") == pairs(run, response__text__contains="50%")


def test_short_words_are_looked_for_in_a_limited_number_of_texts(
    run: Run, admin: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where no index helps, a search must not read a million texts."""
    monkeypatch.setattr("evaluation.answers.search.MAX_SCANNED", 1)
    Run.objects.filter(pk=run.pk).update(responses_total=run.responses.count())
    run.refresh_from_db()
    result = search.search(run, "of", OPERATOR)
    assert result is not None
    address = reverse("evaluation:judgments", args=[run.pk])
    note = "Search for a word of at least three characters"
    if connection.vendor == "sqlite":
        assert (len(result.responses) <= 1, result.partial) == (True, True)
        assert note in text_of(admin.get(address, {"text": "of"}))
    else:
        assert (len(result.responses) > 1, result.partial) == (True, False)
    assert note not in text_of(admin.get(address, {"text": "of Metformin"}))


def test_a_search_has_a_limit_and_says_so(run: Run, admin: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    address = reverse("evaluation:judgments", args=[run.pk])
    note = "Add a word to find the others"
    assert note not in text_of(admin.get(address, {"text": "metformin"}))
    monkeypatch.setattr("evaluation.answers.search.MAX_MATCHES", 2)
    page = admin.get(address, {"text": "metformin"})
    assert note in text_of(page)
    assert len({row.response_id for row in page.context["page"].rows}) == 2


def test_a_search_covers_one_run_only(run: Run, release: Release) -> None:
    other = judged_run(release, "three")
    assert matches(other, "metformin") == set()
    assert matches(other, "agree") == pairs(other)


def test_filters_can_be_combined(run: Run, admin: Client) -> None:
    with_facets(run)
    assert {row.response.outcome for row in queries.judgments(run, OPERATOR, outcome="refused")} == {"refused"}
    refused = queries.judgments(run, OPERATOR, outcome="refused", endpoint="two", verdict="not_met")
    assert refused.count() == Judgment.objects.filter(response__outcome="refused", verdict="not_met").count()
    assert dict(queries.outcomes(run)).keys() == set(Response.Outcome.values)
    page = admin.get(reverse("evaluation:judgments", args=[run.pk]), {"outcome": "refused", "endpoint": "one"})
    assert page.status_code == 200
    assert "No judgments found" in text_of(page)
    assert "severity" not in page.context["filters"].fields, "no rubric has one"
    run.responses.update(outcome="answered")
    page = admin.get(reverse("evaluation:judgments", args=[run.pk]))
    assert "outcome" not in page.context["filters"].fields, "all responses have the same outcome"


def test_judgments_on_which_judges_disagree_can_be_listed(run: Run, admin: Client, api: Api, rui: User) -> None:
    """A failed vote does not count as a verdict, and a run without a panel lacks this filter."""
    address, query = reverse("evaluation:judgments", args=[run.pk]), {"judges": "disagree"}
    assert "judges" not in admin.get(address, query).context["filters"].fields
    Run.objects.filter(pk=run.pk).update(panel="majority")
    first, second, third = run.judgments.order_by("rubric", "response")[:3]
    judges = [model("a"), model("b"), model("c")]
    for judgment, verdicts in ((first, ("met", "not_met", "met")), (second, ("met", "met", "")), (third, ("met",) * 3)):
        for judge, verdict in zip(judges, verdicts, strict=True):
            status = Work.Status.DONE if verdict else Work.Status.FAILED
            error = "" if verdict else "BrokenReply"
            Vote.objects.create(run=run, judgment=judgment, judge=judge, verdict=verdict, status=status, error=error)
    assert list(queries.judgments(run, OPERATOR, judges="disagree")) == [first]
    assert list(queries.judgments(run, OPERATOR, judges="disagree", endpoint="nobody")) == []
    page = admin.get(address, query)
    assert [row.pk for row in page.context["page"].rows] == [first.pk]
    assert "judges disagree" in text_of(page)
    listed = api(rui).get(f"/api/v1/runs/{run.pk}/judgments/", query).json()
    assert [row["id"] for row in listed["results"]] == [first.pk]
    assert api(rui).get(f"/api/v1/runs/{run.pk}/judgments/", {"judges": "agree"}).status_code == 400


def test_pages_follow_each_other_both_ways(admin: Client, release: Release) -> None:
    run = judged_run(release, *(f"m{n}" for n in range(12)))
    address, steps, seen = reverse("evaluation:judgments", args=[run.pk]), ["?"], []
    page: Page = None
    while steps[-1]:
        page = admin.get(address + steps[-1])
        seen.append([row.pk for row in page.context["page"].rows])
        steps.append(page.context["page"].older)
    assert [pk for rows in seen for pk in rows] == list(queries.judgments(run, OPERATOR).values_list("pk", flat=True))
    for rows in reversed(seen[:-1]):
        page = admin.get(address + page.context["page"].newer)
        assert [row.pk for row in page.context["page"].rows] == rows
    assert page.context["page"].newer == ""
    for invalid in ("after-", "after-1", "after-x.y", "before-1.2.3", "after-" + "9" * 30 + ".1", "sideways-1.1"):
        assert admin.get(address, {"cursor": invalid}).context["page"].rows[0].pk == seen[0][0]


def test_the_number_of_queries_does_not_grow_with_the_run(admin: Client, release: Release) -> None:
    few, many = judged_run(release, "m0"), judged_run(release, *(f"m{n}" for n in range(12)))
    for query in ({}, {"text": "agree", "verdict": "not_met"}, {"endpoint": "m0", "outcome": "answered"}):
        small, large = (f"{reverse('evaluation:judgments', args=[run.pk])}?{urlencode(query)}" for run in (few, many))
        for page in (small, large):  # what a search finds is kept
            admin.get(page)
        assert query_count(admin, small) == query_count(admin, large)
    key = release.samples.order_by("pk")[0].key
    small, large = (reverse("evaluation:sample", args=[run.pk, key]) for run in (few, many))
    assert query_count(admin, small) == query_count(admin, large)


# ------------------------------------------------------------------------------ models side by side


def test_all_models_are_shown_on_one_sample(run: Run, admin: Client, release: Release) -> None:
    first, second, third = release.samples.order_by("position")
    page = admin.get(reverse("evaluation:sample", args=[run.pk, first.key]))
    text = text_of(page)
    assert CHINESE in text
    assert "Take Metformin" in text
    comparison = page.context["comparison"]
    assert [response.endpoint.name for response in comparison.responses] == ["one", "two"]
    assert [len(judgments) for _rubric, judgments in comparison.criteria] == [2, 2, 2]
    for rubric, judgments in comparison.criteria:
        for response, judgment in zip(comparison.responses, judgments, strict=True):
            assert (judgment.response_id, judgment.rubric_id) == (response.pk, rubric.pk)
            assert f"?selected={judgment.pk}" in text
    assert (comparison.before, comparison.after) == ("", second.key)
    assert queries.side_by_side(run, third.key, OPERATOR).after == ""  # type: ignore[union-attr]
    assert reverse("evaluation:sample", args=[run.pk, second.key]) in text


def test_an_unknown_sample_is_not_found(run: Run, admin: Client) -> None:
    assert admin.get(reverse("evaluation:sample", args=[run.pk, "no-such"])).status_code == 404
    assert admin.get(reverse("evaluation:sample", args=[999, "no-such"])).status_code == 404


def test_no_answer_becomes_markup(admin: Client, release: Release) -> None:
    run = judged_run(release, "one")
    run.responses.update(reasoning=HOSTILE)
    key = release.samples.order_by("pk")[0].key
    assert "<script>alert" not in text_of(admin.get(reverse("evaluation:sample", args=[run.pk, key])))


def test_the_api_has_the_same_filters(run: Run, api: Api, rui: User, ana: User) -> None:
    address = reverse("api:run-judgments", args=[run.pk])
    rows = api(rui).get(address, {"text": "高血压"}).json()["results"]
    assert {(row["response"]) for row in rows} == {run.responses.get(text=CHINESE).pk}
    assert api(rui).get(address, {"outcome": "refused", "verdict": "met"}).status_code == 200
    assert api(rui).get(address, {"outcome": "angry"}).status_code == 400
    assert api(rui).get(address, {"text": "x" * 300}).status_code == 400
    assert api(ana).get(address, {"text": "x"}).status_code == 403
