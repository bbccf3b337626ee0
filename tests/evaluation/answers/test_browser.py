"""The response browser: filters, the search over answers and explanations, and all models on one sample."""

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
from tests.api.conftest import Api, api
from tests.engine import bare_release
from tests.evaluation.test_pages import HOSTILE, SAMPLES, admin, counted, judged, model, text_of, with_facets
from tests.populations import population

__all__ = ["admin", "api"]

pytestmark = [pytest.mark.django_db, pytest.mark.both]
Page = Any
CHINESE = "患者有高血压病史，建议服用阿司匹林。"


@pytest.fixture
def release(db: None) -> Release:
    """That of `run`, where a test asks for both."""
    return Release.objects.first() or bare_release(*SAMPLES)


@population
def run() -> Run:
    """Two models on three samples; the first answer of `one` is in Chinese, one judgment explains itself."""
    run = judged(bare_release(*SAMPLES), "one", "two")
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


def found(run: Run, text: str) -> set[tuple[int, ...]]:
    """The responses and judgments that a search leads to."""
    return {(row.response_id, row.rubric_id) for row in queries.judgments(run, text=text)}


def behind(run: Run, **which: Any) -> set[tuple[int, ...]]:
    return set(Judgment.objects.filter(run=run, **which).values_list("response_id", "rubric_id"))


@pytest.mark.parametrize("term", ["高血压", "血压", "阿司匹林", "高血压 阿司匹林", "林", "建议服用"])
def test_chinese_is_found_within_a_clause(run: Run, term: str) -> None:
    assert found(run, term) == behind(run, response__text=CHINESE)


@pytest.mark.parametrize("term", ["压高", "高血脂", "血压 青霉素", "metformin 高血压"])
def test_what_is_nowhere_is_not_found(run: Run, term: str) -> None:
    assert found(run, term) == set()


def test_every_word_must_be_there_in_any_case(run: Run) -> None:
    english = behind(run, response__text__startswith="Take Metformin")
    assert english
    assert found(run, "metformin") == found(run, "DAY metformin") == english
    assert found(run, "metformin insulin") == set()
    assert found(run, "Cephalorin") == found(run, "剂量") == behind(run, explanation__contains="Cephalorin")


def test_the_index_follows_what_is_written(run: Run) -> None:
    row = run.responses.get(text=CHINESE)
    row.text = "Now in English, about sepsis."
    row.save()
    assert found(run, "高血压") == set()
    assert found(run, "sepsis") == behind(run, response=row)
    row.text = ""
    row.save()
    assert found(run, "sepsis") == set()
    Judgment.objects.filter(explanation__contains="Cephalorin").delete()
    assert found(run, "Cephalorin") == set()
    if connection.vendor == "sqlite":
        with connection.cursor() as cursor:
            for table in ("words_evaluation_response_text", "words_evaluation_judgment_explanation"):
                cursor.execute(f"INSERT INTO {table} ({table}) VALUES ('integrity-check')")


TYPED = [
    '"', "'", "a OR", "NOT", "* *", "(", "text:x", "NEAR(a b)", "a & | !", ":*", "'; DROP TABLE evaluation_run; --", "%", "_",
    "\\", "^", "{a}", '"高', "高:*", "-x", "%s", "\N{GRINNING FACE}", "x" * 900, "a " * 300,
]  # fmt: skip


@pytest.mark.parametrize("typed", TYPED)
def test_whatever_is_typed_is_data(run: Run, admin: Client, typed: str) -> None:
    search.search(run, typed)
    page = admin.get(reverse("evaluation:judgments", args=[run.pk]), {"text": typed})
    assert page.status_code == 200
    assert Run.objects.filter(pk=run.pk).exists()


def test_signs_of_patterns_are_letters(run: Run) -> None:
    assert found(run, "_") == set()
    if connection.vendor == "sqlite":  # PostgreSQL has no words of signs
        assert found(run, "%") == behind(run, response__text__contains="50%")


def test_short_words_are_looked_for_in_so_many_texts(run: Run, admin: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without an index that helps, a search must not read a million texts."""
    monkeypatch.setattr("evaluation.answers.search.MAX_SCANNED", 1)
    Run.objects.filter(pk=run.pk).update(responses_total=run.responses.count())
    run.refresh_from_db()
    told = search.search(run, "of")
    assert told is not None
    where = reverse("evaluation:judgments", args=[run.pk])
    note = "Search for a word of at least three characters"
    if connection.vendor == "sqlite":
        assert (len(told.responses) <= 1, told.partial) == (True, True)
        assert note in text_of(admin.get(where, {"text": "of"}))
    else:
        assert (len(told.responses) > 1, told.partial) == (True, False)
    assert note not in text_of(admin.get(where, {"text": "of Metformin"}))


def test_a_search_has_a_limit_and_says_so(run: Run, admin: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    address = reverse("evaluation:judgments", args=[run.pk])
    said = "Add a word to find the others"
    assert said not in text_of(admin.get(address, {"text": "metformin"}))
    monkeypatch.setattr("evaluation.answers.search.MAX_MATCHES", 2)
    page = admin.get(address, {"text": "metformin"})
    assert said in text_of(page)
    assert len({row.response_id for row in page.context["page"].rows}) == 2


def test_it_looks_into_no_other_run(run: Run, release: Release) -> None:
    other = judged(release, "three")
    assert found(other, "metformin") == set()
    assert found(other, "agree") == behind(other)


def test_filters_together(run: Run, admin: Client) -> None:
    with_facets(run)
    assert {row.response.outcome for row in queries.judgments(run, outcome="refused")} == {"refused"}
    refused = queries.judgments(run, outcome="refused", endpoint="two", verdict="not_met")
    assert refused.count() == Judgment.objects.filter(response__outcome="refused", verdict="not_met").count()
    assert dict(queries.outcomes(run)).keys() == set(Response.Outcome.values)
    page = admin.get(reverse("evaluation:judgments", args=[run.pk]), {"outcome": "refused", "endpoint": "one"})
    assert page.status_code == 200
    assert "No judgments found" in text_of(page)
    assert "severity" not in page.context["filters"].fields, "no rubric has one"
    run.responses.update(outcome="answered")
    page = admin.get(reverse("evaluation:judgments", args=[run.pk]))
    assert "outcome" not in page.context["filters"].fields, "all ended alike"


def test_where_judges_disagree(run: Run, admin: Client, api: Api, rui: User) -> None:
    """A failed vote is no verdict, and a run without a panel has no such filter."""
    address, asked = reverse("evaluation:judgments", args=[run.pk]), {"judges": "disagree"}
    assert "judges" not in admin.get(address, asked).context["filters"].fields
    Run.objects.filter(pk=run.pk).update(panel="majority")
    first, second, third = run.judgments.order_by("rubric", "response")[:3]
    judges = [model("a"), model("b"), model("c")]
    for judgment, verdicts in ((first, ("met", "not_met", "met")), (second, ("met", "met", "")), (third, ("met",) * 3)):
        for judge, verdict in zip(judges, verdicts, strict=True):
            status = Work.Status.DONE if verdict else Work.Status.FAILED
            error = "" if verdict else "BrokenReply"
            Vote.objects.create(run=run, judgment=judgment, judge=judge, verdict=verdict, status=status, error=error)
    assert list(queries.judgments(run, judges="disagree")) == [first]
    assert list(queries.judgments(run, judges="disagree", endpoint="nobody")) == []
    page = admin.get(address, asked)
    assert [row.pk for row in page.context["page"].rows] == [first.pk]
    assert "judges disagree" in text_of(page)
    listed = api(rui).get(f"/api/v1/runs/{run.pk}/judgments/", asked).json()
    assert [row["id"] for row in listed["results"]] == [first.pk]
    assert api(rui).get(f"/api/v1/runs/{run.pk}/judgments/", {"judges": "agree"}).status_code == 400


def test_pages_follow_each_other_both_ways(admin: Client, release: Release) -> None:
    run = judged(release, *(f"m{n}" for n in range(12)))
    address, steps, seen = reverse("evaluation:judgments", args=[run.pk]), ["?"], []
    page: Page = None
    while steps[-1]:
        page = admin.get(address + steps[-1])
        seen.append([row.pk for row in page.context["page"].rows])
        steps.append(page.context["page"].older)
    assert [pk for rows in seen for pk in rows] == list(queries.judgments(run).values_list("pk", flat=True))
    for rows in reversed(seen[:-1]):
        page = admin.get(address + page.context["page"].newer)
        assert [row.pk for row in page.context["page"].rows] == rows
    assert page.context["page"].newer == ""
    for nonsense in ("after-", "after-1", "after-x.y", "before-1.2.3", "after-" + "9" * 30 + ".1", "sideways-1.1"):
        assert admin.get(address, {"cursor": nonsense}).context["page"].rows[0].pk == seen[0][0]


def test_it_asks_as_often_however_much_there_is(admin: Client, release: Release) -> None:
    few, many = judged(release, "m0"), judged(release, *(f"m{n}" for n in range(12)))
    for asked in ({}, {"text": "agree", "verdict": "not_met"}, {"endpoint": "m0", "outcome": "answered"}):
        one, other = (f"{reverse('evaluation:judgments', args=[run.pk])}?{urlencode(asked)}" for run in (few, many))
        admin.get(one)
        assert counted(admin, one) == counted(admin, other)
    key = release.samples.order_by("pk")[0].key
    one, other = (reverse("evaluation:sample", args=[run.pk, key]) for run in (few, many))
    assert counted(admin, one) == counted(admin, other)


# ------------------------------------------------------------------------------------------------- models side by side


def test_all_models_on_one_sample(run: Run, admin: Client, release: Release) -> None:
    first, second, third = release.samples.order_by("position")
    page = admin.get(reverse("evaluation:sample", args=[run.pk, first.key]))
    text = text_of(page)
    assert CHINESE in text
    assert "Take Metformin" in text
    beside = page.context["comparison"]
    assert [response.endpoint.name for response in beside.responses] == ["one", "two"]
    assert [len(criterion.judgments) for criterion in beside.criteria] == [2, 2, 2]
    for criterion in beside.criteria:
        for response, judgment in zip(beside.responses, criterion.judgments, strict=True):
            assert (judgment.response_id, judgment.rubric_id) == (response.pk, criterion.rubric.pk)
            assert f"?selected={judgment.pk}" in text
    assert (beside.before, beside.after) == ("", second.key)
    assert queries.side_by_side(run, third.key).after == ""  # type: ignore[union-attr]
    assert reverse("evaluation:sample", args=[run.pk, second.key]) in text


def test_a_sample_that_is_not_there(run: Run, admin: Client) -> None:
    assert admin.get(reverse("evaluation:sample", args=[run.pk, "no-such"])).status_code == 404
    assert admin.get(reverse("evaluation:sample", args=[999, "no-such"])).status_code == 404


def test_no_answer_becomes_markup(admin: Client, release: Release) -> None:
    run = judged(release, "one")
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
