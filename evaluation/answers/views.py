"""The response browser: the answers behind every number, one by one or side by side."""

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from evaluation import registry
from evaluation.answers import forms, queries
from evaluation.answers.search import MOST_FOUND, search
from evaluation.labels import verdict_label, verdict_state
from evaluation.models import Judgment, Response, Run
from evaluation.protocol import Protocol
from evaluation.reports import queries as reports_queries
from evaluation.runs import queries as runs_queries
from evaluation.runs.kind import RUNS
from generation.models import ReleasedSample
from review.common.decorators import requires
from review.common.paging import keyset_by
from review.rules.permissions import Can


@require_safe
@requires(Can.READ_RESULTS)
def judgments(request: HttpRequest, pk: int) -> HttpResponse:
    """The answers behind a number: a list, and the one that is read."""
    found = RUNS.get(pk)
    filters = forms.JudgmentFilters(request.GET, run=found)
    protocol = registry.protocol(found.release.benchmark)
    chosen = filters.chosen
    words = search(found, chosen.pop("text", ""))
    rows = queries.judgments(found, **chosen, text=words or "")
    page = keyset_by(rows.defer(*queries.HEAVY), request, queries.ORDER, size=30)
    wanted = request.GET.get("selected", "")
    selected = reports_queries.judgment(found, int(wanted)) if wanted.isdecimal() and len(wanted) < 19 else None
    if selected is None and page.rows:
        selected = reports_queries.judgment(found, page.rows[0].pk)
    place = next((i for i, row in enumerate(page.rows) if selected and row.pk == selected.pk), None)
    context = {
        "run": found,
        "filters": filters,
        "more": words is not None and words.more,
        "most": MOST_FOUND,
        "page": page,
        "items": [_item(row, protocol, request) for row in page.rows],
        "place": place,
        "selected": selected,
        **RUNS.page_notes(found),
        **(_reading(found, selected, protocol, request) if selected else {}),
    }
    return render(request, "evaluation/answers/judgments.html", context)


def _item(row: Judgment, protocol: Protocol, request: HttpRequest) -> dict[str, object]:
    address = request.GET.copy()
    address["selected"] = str(row.pk)
    return {
        "judgment": row,
        "href": f"?{address.urlencode()}",
        "label": verdict_label(row.verdict, protocol),
        "state": verdict_state(row.verdict, protocol),
    }


def _reading(run: Run, judgment: Judgment, protocol: Protocol, request: HttpRequest) -> dict[str, object]:
    """What was asked, exactly as it was put to the model, and every judgment of the response."""
    response, sample = judgment.response, judgment.rubric.sample
    response.sample = sample
    ask = queries.question_asked(protocol, response, run.seed)
    labels = {(one.task, one.variant): _(one.label) for one in protocol.datasets}
    return {
        "asked": ask.messages if ask else (),
        "about": sorted(response.about.items()),
        "dataset": labels.get((sample.task, response.variant), sample.task),
        "response": response,
        "outcome": response.get_outcome_display(),
        "sample": sample,
        "language": runs_queries.language_of(sample),
        "verdict": verdict_label(judgment.verdict, protocol),
        "state": verdict_state(judgment.verdict, protocol),
        "others": [_item(row, protocol, request) for row in runs_queries.judgments_of(response)],
    }


@require_safe
@requires(Can.READ_RESULTS)
def calls(request: HttpRequest, pk: int, judgment_id: int) -> HttpResponse:
    """The ledger behind a judgment: the response's calls and the judge's, exactly as sent and answered."""
    found = RUNS.get(pk)
    judgment = reports_queries.judgment(found, judgment_id)
    if judgment is None:
        raise Http404
    said, judged = reports_queries.calls_behind(judgment)
    context = {"run": found, "judgment": judgment, "response_calls": said, "judge_calls": judged}
    return render(
        request,
        "evaluation/answers/calls.html",
        {**context, **RUNS.page_notes(found)},
    )


@require_safe
@requires(Can.READ_RESULTS)
def sample(request: HttpRequest, pk: int, key: str) -> HttpResponse:
    """One sample: what all models of a run answered, and every verdict in one table."""
    found = RUNS.get(pk)
    beside = queries.side_by_side(found, key)
    if beside is None:
        raise Http404
    protocol = registry.protocol(found.release.benchmark)
    labels = {(one.task, one.variant): _(one.label) for one in protocol.datasets}
    context = {
        "run": found,
        "beside": beside,
        "columns": [
            (response, labels.get((beside.sample.task, response.variant), "")) for response in beside.responses
        ],
        "several": len({response.variant for response in beside.responses}) > 1,
        "repeated": any(response.repeat for response in beside.responses),
        "rows": [
            (criterion.rubric, [_cell(row, protocol) for row in criterion.judgments]) for criterion in beside.criteria
        ],
        "asked": _asked(found, beside.sample, beside.responses, protocol),
        "language": runs_queries.language_of(beside.sample),
        **RUNS.page_notes(found),
    }
    return render(request, "evaluation/answers/sample.html", context)


def _cell(row: Judgment | None, protocol: Protocol) -> dict[str, object] | None:
    if row is None:
        return None
    label = verdict_label(row.verdict, protocol)
    return {"judgment": row, "label": label, "state": verdict_state(row.verdict, protocol)}


def _asked(
    run: Run, sample: ReleasedSample, responses: tuple[Response, ...], protocol: Protocol
) -> list[tuple[str, object]]:
    """The messages of each variant that was asked, under its label."""
    labels = {(one.task, one.variant): _(one.label) for one in protocol.datasets}
    variants = {response.variant for response in responses}
    asks = protocol.ask(runs_queries.sample_value(sample), run.seed)
    return [(labels.get((sample.task, ask.variant), ""), ask.messages) for ask in asks if ask.variant in variants]
