"""Effects of asking in another variant: charts, table rows, and the answers behind them."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from django.urls import reverse
from django.utils.translation import gettext, gettext_noop, pgettext
from django.utils.translation import gettext_lazy as _

from evaluation import registry
from evaluation.answers import queries
from evaluation.models import Judgment, Response, Run
from evaluation.numbers import changes as counted
from evaluation.numbers.changes import ALL, BROKEN, FIXED, KEPT, STAYED, Change
from evaluation.numbers.rates import of_rate, rate_named
from evaluation.numbers.totals import unit_totals
from evaluation.protocol import Protocol, Rate
from evaluation.reports.queries import Report
from evaluation.runs import queries as runs_queries
from evaluation.runs.rows import chains
from evaluation.runs.verdicts import run_frame
from generation.models import ReleasedSample
from generation.samples.queries import visible_to
from review.charts.flow import FlowChart, Stream, flow

MOVES = {
    FIXED: _("Fixed: wrong before, right now"),
    BROKEN: _("Broken: right before, wrong now"),
    KEPT: _("Right before and now"),
    STAYED: _("Wrong before and now"),
}
_CELLS = {KEPT: (0, 0), BROKEN: (0, 1), FIXED: (1, 0), STAYED: (1, 1)}


def rates_with_changes(report: Report) -> list[Rate]:
    """The rates for which a report has changes."""
    names = {change.rate for change in report.numbers.changes}
    return [rate for rate in report.rates if rate.name in names]


def change_lines(report: Report, rate: Rate) -> list[tuple[Change, str, str]]:
    """Every change, with the addresses of the samples that it fixed and broke."""
    lines = []
    for change in of_rate(report.numbers.changes, rate):
        fixed = changed_samples_url(report.run, change, FIXED)
        lines.append((change, fixed, changed_samples_url(report.run, change, BROKEN)))
    return lines


def changed_samples_url(run: Run, change: Change, move: str) -> str:
    """The URL of the samples whose answers changed in one way."""
    query = {
        "first": change.first,
        "second": change.second,
        "rate": change.rate,
        "model": change.endpoint,
        "move": move,
    }
    return f"{reverse('evaluation:changed', args=[run.pk])}?{urlencode(query)}"


def flows(report: Report, rate: Rate, endpoint: str) -> list[FlowChart]:
    """A chart of each contrast, for one model or for all together."""
    datasets = dict(report.datasets)
    states = (pgettext("answers", "Right"), pgettext("answers", "Wrong"))
    shown = [change for change in of_rate(report.numbers.changes, rate) if change.endpoint == endpoint]
    heads = (gettext("Before"), gettext("After"))
    charts = []
    for index, change in enumerate(shown):
        streams = []
        for move, label in MOVES.items():
            url = changed_samples_url(report.run, change, move)
            streams.append(Stream(*_CELLS[move], change.moves[move], move, str(label), url))
        title = f"{gettext(datasets[change.second])}: {gettext(change.label)}"
        chart = flow(tuple(streams), states, name=f"flow-{index}", title=title, heads=heads)
        if chart is not None:
            charts.append(chart)
    return charts


def samples_with_move(run: Run, report: Report, query: Mapping[str, str], reader: object) -> list[int]:
    """Primary keys of the samples that `reader` may see behind a stream of a chart, in order.

    Empty if the query is not one of `changed_samples_url`.
    """
    protocol = registry.protocol(run.release.benchmark)
    rate = rate_named(rates_with_changes(report), query.get("rate", ""))
    contrasts = [(first, second) for first, second, _label in protocol.contrasts]
    first, second = query.get("first", ""), query.get("second", "")
    endpoint, move = query.get("model", ""), query.get("move", "")
    if rate is None or move not in MOVES:
        return []
    if (first, second) not in contrasts or endpoint not in (ALL, *report.endpoints):
        return []
    totals = unit_totals(run_frame(run).current, [rate])[rate.name]
    moved = counted.samples_with_move(totals, protocol, first=first, second=second, endpoint=endpoint, move=move)
    visible = visible_to(reader, ReleasedSample.objects.filter(release=run.release_id))
    readable = set(visible.values_list("pk", flat=True))
    return [pk for pk in moved if pk in readable]


def parts_table(run: Run, sample: ReleasedSample, query: Mapping[str, str]) -> dict[str, Any]:
    """The reference, then for each model its answers in the baseline and in the variant.

    `columns`: each answer with its verdicts; `rows`: (part, its text in each column). Takes four
    database queries, and one more for each link of a chain.
    """
    protocol = registry.protocol(run.release.benchmark)
    datasets = {dataset.name: dataset for dataset in protocol.datasets}
    before, after = datasets[query["second"]], datasets[query["first"]]
    labels = {before.variant: gettext(before.label), after.variant: gettext(after.label)}
    order = [before.variant, after.variant]
    rows = Response.objects.filter(run=run, sample=sample, variant__in=order)
    if query.get("model"):
        rows = rows.filter(endpoint__name=query["model"])
    responses = sorted(
        rows.select_related("endpoint"), key=lambda row: (row.endpoint.name, row.repeat, order.index(row.variant))
    )
    for row in responses:
        row.sample = sample
    texts = chains.judged_texts(protocol, responses)
    verdicts: dict[int, list[dict[str, Any]]] = defaultdict(list)  # by response
    for judgment in Judgment.objects.filter(response__in=responses).select_related("rubric").order_by("rubric__pk"):
        verdicts[judgment.response_id].append(queries.with_verdict(judgment, protocol))
    columns: list[tuple[str, Sequence[str], list[dict[str, Any]]]] = []  # heading, texts, verdicts
    if protocol.reference is not None:
        text = protocol.reference(runs_queries.sample_value(sample))
        columns.append((gettext("Reference"), _part_texts(protocol, text), []))
    for row in responses:
        head = f"{row.endpoint.name}, {labels[row.variant]}"
        columns.append((head, _part_texts(protocol, texts[row.pk]), verdicts[row.pk]))
    parts = []
    for index, (label, _text) in enumerate(_parts(protocol, "")):
        parts.append((gettext(label), [texts[index] for _head, texts, _verdicts in columns]))
    return {"columns": columns, "rows": parts}


def _parts(protocol: Protocol, text: str) -> Sequence[tuple[str, str]]:
    """The parts of a text with their labels; a benchmark that tells none apart has one."""
    if protocol.parts:
        return protocol.parts(text)
    return [(gettext_noop("Answer"), text)]


def _part_texts(protocol: Protocol, text: str) -> list[str]:
    return [part for _label, part in _parts(protocol, text)]
