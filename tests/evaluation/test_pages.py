"""The pages of evaluation: numbers link to the answers they count, and no text becomes markup."""

import json
import re
from collections.abc import Mapping
from html.parser import HTMLParser
from typing import Any

import pytest
from django.db import connection
from django.http import QueryDict
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from evaluation.answers import queries as answers_queries
from evaluation.answers.forms import JudgmentFilters
from evaluation.models import Judgment, Response, Run
from evaluation.reports import formats, queries
from evaluation.reports.figures import figures
from evaluation.runs import services
from evaluation.runs.settings import RunSettings
from generation.jobs import services as jobs_services
from generation.models import Endpoint, Facet, Release, ReleasedRubric
from generation.models.work import Work
from review.models import User
from review.rules.permissions import OPERATOR
from tests.engine import bare_release, endpoint, evaluate_release

pytestmark = pytest.mark.django_db
Status = Work.Status
Page = Any  # the test client's response: an HttpResponse with additional attributes
HOSTILE = "<script>alert('model')</script>"
SAMPLES = (
    ("dialogue", [["A1"], ["A1", "D2"], ["D2"]]),
    ("dialogue", [["C2"], ["A1"]]),
    ("report", [["A1"], ["B2"], ["E1"]]),
)


def model(name: str, **fields: Any) -> Endpoint:
    return endpoint("http://models.example/v1", name, **fields)


@pytest.fixture
def release(db: None) -> Release:
    """Three samples with eight rubrics and several traps."""
    return bare_release(*SAMPLES)


def with_facets(run: Run) -> Run:
    """Add the counts by facet of a real release, in memory: a stored release cannot change."""
    for name, value in Facet.objects.values_list("name", "value"):
        run.release.counts.setdefault(name, {})[value] = {"samples": 1, "rubrics": 1}
    return run


def judged_run(release: Release, *names: str, verdicts: tuple[str, ...] = ("met", "not_met", "", "not_met")) -> Run:
    """A finished run, created without asking a model. Its judgments cycle through `verdicts`.

    An empty verdict leaves a judgment unjudged.
    """
    run = services.launch_run(
        RunSettings(release=release, endpoints=[model(name) for name in names], judge=model("judge"))
    )
    run.responses.update(status=Status.DONE, outcome="answered", text=f"I agree. {HOSTILE}")
    Judgment.objects.bulk_create(
        Judgment(
            run=run,
            response=response,
            rubric=rubric,
            verdict=verdict,
            status=Status.DONE if verdict else Status.FAILED,
            explanation=f"It says so. {HOSTILE}" if verdict else "",
            error="" if verdict else "BrokenReply",
            detail="" if verdict else f"Not JSON: {HOSTILE}",
        )
        for response in run.responses.order_by("pk")
        for number, rubric in enumerate(ReleasedRubric.objects.filter(sample=response.sample_id).order_by("pk"))
        for verdict in [verdicts[(response.pk + number) % len(verdicts)]]
    )
    jobs_services.settle(run.pk)
    run.refresh_from_db()
    return run


def text_of(page: Page) -> str:
    return " ".join(page.content.decode().split())


def query_count(client: Client, url: str) -> int:
    """The number of queries that a page needs."""
    with CaptureQueriesContext(connection) as executed:
        assert client.get(url).status_code == 200
    return len(executed)


class Links(HTMLParser):
    """The links of a page as (address, text); for a link in a figure the text is its label."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.pairs: list[tuple[str, str]] = []
        self._open = False
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        if tag == "a":
            self.pairs.append((attributes.get("href") or "", attributes.get("aria-label") or ""))
            self._open = not attributes.get("aria-label")

    def handle_endtag(self, tag: str) -> None:
        self._open = self._open and tag != "a"

    def handle_data(self, data: str) -> None:
        if self._open:
            href, text = self.pairs[-1]
            self.pairs[-1] = (href, text + data)


def judgment_count(run: Run, href: str) -> int:
    """The number of judgments that an address lists."""
    query = QueryDict(href.partition("?")[2])
    return answers_queries.judgments(run, OPERATOR, **JudgmentFilters(query, run=run).chosen).count()


# ----------------------------------------------------------------------------------------- - access


def test_results_are_for_researchers_and_admins(ana: User, rui: User, admin: Client, release: Release):
    run = judged_run(release, "one")
    judgment = Judgment.objects.all()[0]
    researcher, physician = Client(), Client()
    researcher.force_login(rui)
    physician.force_login(ana)
    for name, args in (
        ("runs", []),
        ("run", [run.pk]),
        ("judgments", [run.pk]),
        ("calls", [run.pk, judgment.pk]),
        ("report-json", [run.pk]),
        ("report-markdown", [run.pk]),
        ("report-latex", [run.pk]),
        ("report-csv", [run.pk]),
    ):
        url = reverse(f"evaluation:{name}", args=args)
        assert Client().get(url).status_code == 302
        assert physician.get(url).status_code == 403
        assert researcher.get(url).status_code == 200
    for name, args in (("run-new", []), ("run-cancel", [run.pk]), ("run-retry", [run.pk])):
        assert researcher.post(reverse(f"evaluation:{name}", args=args)).status_code == 403
    assert "run-new" not in text_of(researcher.get(reverse("evaluation:runs")))


@pytest.mark.parametrize("name", ["runs", "run-new"])
def test_an_empty_page_says_what_to_do(name: str, admin: Client):
    assert 'class="empty"' in text_of(admin.get(reverse(f"evaluation:{name}")))


@pytest.mark.parametrize("name", ["run", "judgments", "run-progress", "report-json"])
def test_an_unknown_run_is_not_found(name: str, admin: Client):
    assert admin.get(reverse(f"evaluation:{name}", args=[99])).status_code == 404


# ------------------------------------------------------------------------------------------- launch


def test_a_run_is_launched_with_the_published_temperature(
    admin: Client, adela: User, release: Release, sent_tasks: list[Any], django_capture_on_commit_callbacks: Any
):
    for name in ("one", "two", "judge"):
        model(name)
    url = reverse("evaluation:run-new")
    assert "0.5" in text_of(admin.get(url))
    assert f'<option value="{release.pk}" selected>' in text_of(admin.get(url, {"release": release.pk}))
    data = {"release": release.pk, "judge": "judge", "judging": "per-rubric", "confirmed": "1"}
    refused = admin.post(url, data)
    assert refused.status_code == 422
    assert "endpoints" in refused.context["form"].errors
    with django_capture_on_commit_callbacks(execute=True):
        response: Page = admin.post(url, {**data, "endpoints": ["one", "two"]})
    run = Run.objects.get()
    assert response["Location"] == reverse("evaluation:run", args=[run.pk])
    assert sent_tasks == [("check_models", run.pk), ("run_lane",)]
    assert (run.judge_temperature, run.created_by) == (0.5, adela)
    assert run.responses.count() == 6
    admin.post(url, {**data, "endpoints": ["one"], "judge_temperature": "0"})
    assert Run.objects.latest("pk").judge_temperature == 0


@pytest.mark.parametrize("temperature", [0.0, 0.25])
def test_the_page_shows_the_temperature_that_the_judge_was_asked_with(
    admin: Client, release: Release, temperature: float
) -> None:
    judge = model("judge", temperature=0.9)
    run = services.launch_run(
        RunSettings(release=release, endpoints=[model("one")], judge=judge, judge_temperature=temperature)
    )
    Endpoint.objects.filter(pk=judge.pk).update(temperature=1.5)
    page = text_of(admin.get(reverse("evaluation:run", args=[run.pk])))
    shown = re.search(r"Judge temperature</dt>\s*<dd>\s*([^<]*?)\s*<", page)
    assert shown is not None
    assert shown[1] == str(temperature)


def test_the_models_of_a_run_have_their_roles_in_words(admin: Client, release: Release) -> None:
    run = services.launch_run(RunSettings(release=release, endpoints=[model("one")], judge=model("judge")))
    page = text_of(admin.get(reverse("evaluation:run", args=[run.pk])))
    roles = page.partition('id="models-asked"')[2].partition("</table>")[0]
    assert re.findall(r"<td>(.*?)</td>", roles)[0] == "Model under test"
    assert "<td>Judge</td>" in roles


def test_the_page_follows_a_run_to_its_end(admin: Client, release: Release):
    run = services.launch_run(RunSettings(release=release, endpoints=[model("one")], judge=model("judge")))
    page, fragment = (reverse(f"evaluation:run{part}", args=[run.pk]) for part in ("", "-progress"))
    assert f'hx-get="{fragment}"' in text_of(admin.get(page))
    assert "0 of 3" in text_of(admin.get(fragment))
    assert [percent for _run, percent, _rate in admin.get(reverse("evaluation:runs")).context["rows"]] == [0]
    Response.objects.filter(run=run).update(status=Status.FAILED, outcome="failed", error="RateLimited")
    jobs_services.settle(run.pk)
    assert "mhb:changed" in admin.get(fragment)["HX-Trigger"]
    ended = text_of(admin.get(page))
    assert "hx-get" not in ended
    assert "one: 3 responses failed" in ended


def test_cancel_and_retry_need_a_post_and_refuse_a_run_that_has_ended(
    admin: Client, release: Release, sent_tasks: list[Any], django_capture_on_commit_callbacks: Any
):
    run = judged_run(release, "one")
    failed = run.judgments.filter(status=Status.FAILED).count()
    retry, cancel = (reverse(f"evaluation:run-{action}", args=[run.pk]) for action in ("retry", "cancel"))
    assert admin.get(retry).status_code == 405
    with django_capture_on_commit_callbacks(execute=True):
        admin.post(retry)
    assert sent_tasks == [("run_lane",)]
    assert run.judgments.filter(status=Status.QUEUED).count() == failed > 0
    assert admin.post(cancel).status_code == 302
    assert admin.post(cancel).status_code == 302, "cancelling twice does no harm"
    assert admin.post(retry).status_code == 302


# ------------------------------------------------------------------------------------------- report


def test_every_number_leads_to_the_judgments_that_it_counts(admin: Client, release: Release):
    run = with_facets(judged_run(release, "one", "two"))
    page = admin.get(reverse("evaluation:run", args=[run.pk]))
    shown = page.context["figures"]
    lines = [*shown.lines, *(line for section in shown.sections for line in (*section.lines, *section.few_lines))]
    assert len(lines) > 20
    for line in lines:
        assert judgment_count(run, line.counted_href) == line.measured.denominator, line
        assert judgment_count(run, line.hits_href) == line.measured.numerator, line
        assert line.href == (line.hits_href if line.measured.numerator else line.counted_href), line
        assert judgment_count(run, line.unjudged_href) == line.measured.excluded, line
    assert any(line.measured.excluded for line in lines)
    links = Links(text_of(page))
    addresses = {href for href, _text in links.pairs}
    for line in lines:
        assert line.hits_href in addresses
    marks = [(href, text) for href, text in links.pairs if "/judgments/" in href and "%" in text]
    assert len(marks) > 30
    assert all(judgment_count(run, href) for href, _text in marks)


def test_the_figures_show_the_numbers_of_the_table(db: None):
    run = judged_run(bare_release(*SAMPLES * 12), "one", "two", verdicts=("met", "not_met"))
    report = queries.report(run)
    shown = figures(report, lambda *_where: "#")
    assert [chart.title for chart in shown.bars] == ["MHB-Dialogue", "MHB-Report", "Combined"]
    in_figures = [(mark.label, mark.count) for chart in shown.bars for mark in chart.marks]
    in_table = [
        (row.endpoint, f"{row.measured.numerator}/{row.measured.denominator}") for row in report.numbers.overall
    ]
    assert sorted(in_figures) == sorted(in_table)
    subtype = next(section for section in shown.sections if section.name == "subtype")
    [heat] = subtype.heats
    assert [label for label, _cells in heat.rows][:2] == ["A1 Non-existent Entity", "B2 Amalgamation Error"]
    assert {len(chart.axes) for chart in subtype.radars} == {3, 5}


def test_cells_with_too_few_samples_are_mentioned_and_not_drawn(admin: Client, release: Release):
    run = judged_run(release, "one", "two")
    shown = figures(queries.report(run), lambda *_where: "#")
    assert {mark.interval for chart in shown.bars for mark in chart.marks} == {"too few for an interval"}
    for section in shown.sections:
        assert not section.radars
        assert {cell.text for chart in section.heats for _label, cells in chart.rows for cell in cells} <= {
            "too few",
            "",
        }
    page = text_of(admin.get(reverse("evaluation:run", args=[run.pk])))
    assert "cells have too few samples for an interval (fewer than 10" in page


def test_a_run_without_variants_has_no_empty_table_of_changes(admin: Client, release: Release):
    page = text_of(admin.get(reverse("evaluation:changes", args=[judged_run(release, "one", "two").pk])))
    assert "Each sample was asked in one way" in page
    assert "<table" not in page


def test_there_is_no_radar_for_more_models_than_can_be_told_apart(release: Release):
    run = judged_run(release, *(f"m{n}" for n in range(9)))
    shown = figures(queries.report(run), lambda *_where: "#")
    assert all(not section.radars for section in shown.sections)
    assert all(len(chart.columns) == 9 for section in shown.sections for chart in section.heats)


@pytest.mark.parametrize(("sort", "reverse_order"), [("rate", False), ("-rate", True)])
def test_the_table_is_sorted_by_link(sort: str, reverse_order: bool, release: Release):
    run = judged_run(release, "one", "two", "three")
    rates = [line.measured.value or 0.0 for line in figures(queries.report(run), lambda *_: "#", sort=sort).lines]
    assert rates == sorted(rates, reverse=reverse_order)
    assert len(set(rates)) > 1


def test_downloads_are_the_report_itself(admin: Client, release: Release):
    run = judged_run(release, "one")
    download: Page = admin.get(reverse("evaluation:report-json", args=[run.pk]))
    assert json.loads(download.content) == json.loads(formats.as_json(queries.report(run)))
    assert download["Content-Disposition"] == f'attachment; filename="bare-v1-run-{run.pk}.json"'
    assert text_of(admin.get(reverse("evaluation:report-markdown", args=[run.pk]))).startswith("# bare v1")


def test_every_page_labels_simulated_models(admin: Client, release: Release, models: str):
    run = evaluate_release(release, models, "sim-careful")
    judgment = run.judgments.order_by("pk")[0]
    for name, args in (("run", [run.pk]), ("judgments", [run.pk]), ("calls", [run.pk, judgment.pk])):
        assert "not evidence" in text_of(admin.get(reverse(f"evaluation:{name}", args=args)))
    assert "badge--simulated" in text_of(admin.get(reverse("evaluation:runs")))
    calls = text_of(admin.get(reverse("evaluation:calls", args=[run.pk, judgment.pk])))
    assert "mhb/judge@3" in calls
    assert "sim-careful" in calls


def test_real_models_carry_no_banner(admin: Client, release: Release):
    run = judged_run(release, "one")
    assert "not evidence" not in text_of(admin.get(reverse("evaluation:run", args=[run.pk])))


# ------------------------------------------------------------------------------------------ answers


def test_an_answer_is_shown_with_its_question_and_the_explanations_of_its_verdicts(admin: Client, release: Release):
    run = judged_run(release, "one", "two")
    judgment = run.judgments.filter(verdict="not_met").order_by("pk")[1]
    page = admin.get(reverse("evaluation:judgments", args=[run.pk]), {"selected": judgment.pk})
    html = text_of(page)
    assert page.context["selected"] == judgment
    for message in page.context["question_messages"]:
        assert message.content.split("'")[0] in html
    assert page.context["question_messages"]
    assert judgment.rubric.criterion in html
    assert HOSTILE not in html
    assert "It says so. &lt;script&gt;" in html
    assert "I agree. &lt;script&gt;" in html
    listed = [item["judgment"] for item in page.context["response_judgments"]]
    assert listed == list(judgment.response.judgments.order_by("rubric__pk"))


def test_an_unjudged_criterion_shows_the_error(admin: Client, release: Release):
    run = judged_run(release, "one")
    html = text_of(admin.get(reverse("evaluation:judgments", args=[run.pk]), {"verdict": "unjudged"}))
    assert "The model&#x27;s reply does not have the requested form. Not JSON: &lt;script&gt;" in html
    assert "BrokenReply" not in html
    assert HOSTILE not in html


def test_keys_select_the_previous_and_next_judgment(admin: Client, release: Release):
    run = judged_run(release, "one")
    rows = list(run.judgments.order_by("pk"))
    html = text_of(admin.get(reverse("evaluation:judgments", args=[run.pk]), {"selected": rows[1].pk}))
    for key, row in (("k", rows[0]), ("j", rows[2])):
        item = html.partition(f'id="judgment-{row.pk}"')[2].partition(">")[0]
        assert f'data-key="{key}"' in item
        assert f'href="?selected={row.pk}"' in item


def test_pages_of_filtered_answers_are_complete_and_in_order(admin: Client, release: Release):
    run = judged_run(release, *(f"m{n}" for n in range(12)), verdicts=("met", "not_met"))
    url, seen, step = reverse("evaluation:judgments", args=[run.pk]), [], "?verdict=not_met"
    while step:
        page = admin.get(url + step)
        seen += [row.pk for row in page.context["page"].rows]
        step = page.context["page"].older
    expected = run.judgments.filter(verdict="not_met").order_by("rubric_id", "response_id")
    assert seen == list(expected.values_list("pk", flat=True)), "answers to one criterion are listed together"
    assert len(seen) > 30


@pytest.mark.parametrize("query", [{"selected": "x"}, {"selected": "9" * 30}, {"verdict": "odd"}, {"value": "Z9"}])
def test_an_invalid_query_shows_the_first_judgment(query: Mapping[str, str], admin: Client, release: Release):
    run = judged_run(release, "one")
    page = admin.get(reverse("evaluation:judgments", args=[run.pk]), query)
    assert page.context["selected"] == run.judgments.order_by("pk")[0]


def test_an_answer_of_another_run_is_not_shown(admin: Client, release: Release):
    first, second = judged_run(release, "one"), judged_run(release, "one")
    other_judgment = second.judgments.order_by("pk")[0]
    page = admin.get(reverse("evaluation:judgments", args=[first.pk]), {"selected": other_judgment.pk})
    assert page.context["selected"].run == first
    assert admin.get(reverse("evaluation:calls", args=[first.pk, other_judgment.pk])).status_code == 404


# ------------------------------------------------------------------------------------------ queries


@pytest.mark.parametrize("name", ["runs", "run", "judgments", "run-progress"])
def test_no_page_needs_more_queries_for_more_rows(name: str, admin: Client, release: Release):
    def url(run: Run) -> str:
        return reverse(f"evaluation:{name}", args=[] if name == "runs" else [run.pk])

    small = judged_run(release, "one")
    running = services.launch_run(RunSettings(release=release, endpoints=[model("one")], judge=model("judge")))
    shown = running if name == "run-progress" else small
    expected = query_count(admin, url(shown))
    big = judged_run(release, *(f"m{n}" for n in range(6)))
    for _ in range(3):
        running = services.launch_run(
            RunSettings(release=release, endpoints=[model("one"), model("m1")], judge=model("judge"))
        )
    shown = running if name == "run-progress" else big
    assert query_count(admin, url(shown)) == expected
