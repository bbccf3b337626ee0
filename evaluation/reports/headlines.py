"""What a report says first: the key sentences, and what anyone who quotes them must name."""

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass

from django.utils import formats, timezone
from django.utils.translation import gettext, ngettext

from evaluation import registry
from evaluation.labels import cluster_label
from evaluation.metrics import MeasuredRate
from evaluation.models import Run
from evaluation.numbers.comparing import ModelComparison
from evaluation.numbers.rates import of_rate, rate_named
from evaluation.numbers.rules import COMBINED
from evaluation.protocol import Rate
from evaluation.reports.comparison_lines import format_difference, format_interval, format_p, format_shares
from evaluation.reports.queries import Report, report
from evaluation.reports.services import leave_to_worker
from evaluation.runs.queries import judge_names
from evaluation.runs.rows import result_cache
from generation.releases.citing import bibtex
from review.charts.text_measure import format_share
from review.rules.shown_fields import Hidden

MODELS_NAMED = 4  # with more, the lowest and the highest
DIFFERENCES_NAMED = 3
DATASETS_NAMED = 4
COUNTED_AT_ONCE = 5  # runs of a list


@dataclass(frozen=True, slots=True)
class ReportAnswer:
    """The answer of a report to one rate.

    `sentences`: one on the rates and one on the differences of each data set that counts.
    `facts`: (name, value) of what a reader needs beside them. `citation`: of the release, BibTeX.
    """

    sentences: tuple[str, ...]
    facts: Hidden[tuple[tuple[str, str], ...]]
    citation: str

    @property
    def text(self) -> str:
        """Everything but the citation, to copy."""
        facts = [f"{name}: {value}" for name, value in self.facts]
        return "\n".join([*self.sentences, "", *facts])


def answer(of: Report, rate: Rate) -> ReportAnswer:
    """The answer of a report to a rate, in the language that is active."""
    sentences: list[str] = []
    for dataset in answered_datasets(of):
        for sentence in _sentences(of, rate, dataset):
            if sentence in sentences:  # what holds for several data sets is said after the last of them
                sentences.remove(sentence)
            sentences.append(sentence)
    if more := _datasets_not_named(of):
        text = ngettext("%(n)d more data set is shown below.", "%(n)d more data sets are shown below.", more)
        sentences.append(text % {"n": more})
    return ReportAnswer(tuple(sentences), tuple(_facts(of)), bibtex(of.run.release))


def headlines(runs: Iterable[Run]) -> dict[int, str]:
    """Run -> its planned rate in a few words: '12.5%', or '12.5%–40.0%' over its models.

    Only of runs that are over. Those whose numbers are not cached are left to a worker, at most
    `COUNTED_AT_ONCE`; without one they are counted here, but for large ones. The words say which
    rates are still to come.
    """
    runs = list(runs)
    result_cache.read_marks(runs)
    over = [run for run in runs if result_cache.is_over(run)]
    keys = {run.pk: _headline_key(run) for run in over}
    ends = result_cache.known(keys.values())
    words: dict[int, str] = {}
    counted = 0
    for run in over:
        key = keys[run.pk]
        words[run.pk] = gettext("not counted yet")
        if key not in ends and counted < COUNTED_AT_ONCE:
            of_run = report(run)
            is_cached = result_cache.is_cached(of_run.numbers_key)
            if not is_cached and leave_to_worker(of_run):
                words[run.pk] = gettext("being counted")
                counted += 1
            elif is_cached or not of_run.is_waiting:
                ends[key] = cache_headline(of_run)
                counted += 1
        if key in ends:
            words[run.pk] = _in_words(run, *ends[key])
    return words


def cache_headline(of: Report) -> tuple[str, list[float]]:
    """The planned rate of a run and the lowest and highest value of it, cached."""
    name, dataset = of.planned_rate.name, answered_datasets(of)[0]
    known = []
    for row in of.numbers.overall:
        value = row.rates[name].value
        if row.dataset == dataset and value is not None:
            known.append(value)
    ends = []
    if known:
        ends = sorted({min(known), max(known)})
    return result_cache.cached(_headline_key(of.run), lambda: (name, ends), of.run)


def _headline_key(run: Run) -> str:
    return result_cache.key_of(run, "headline", registry.protocol(run.release.benchmark).rates)


def _in_words(run: Run, name: str, ends: Sequence[float]) -> str:
    rate = rate_named(registry.protocol(run.release.benchmark).rates, name)
    if rate is None or not ends:
        return ""
    return f"{format_shares(ends, percent=rate.percent)} {gettext(rate.label)}"


def answered_datasets(of: Report) -> list[str]:
    """The data sets that an answer names: the primary one of the plan, all pooled, or the first."""
    names = list(dict(of.datasets))
    if of.plan.dataset in names:
        return [of.plan.dataset]
    if COMBINED in names:
        return [COMBINED]
    return names[:DATASETS_NAMED]


def _datasets_not_named(of: Report) -> int:
    """How many data sets of a report without a primary or pooled one its answer leaves out."""
    if of.plan.dataset or COMBINED in dict(of.datasets):
        return 0
    return max(0, len(of.datasets) - DATASETS_NAMED)


def _sentences(of: Report, rate: Rate, dataset: str) -> list[str]:
    rows = []
    for row in of.numbers.overall:
        measured = row.rates[rate.name]
        if row.dataset == dataset and measured.value is not None:
            rows.append((row.endpoint, measured))
    labels = dict(of.datasets)
    words = {"rate": gettext(rate.label), "dataset": gettext(labels[dataset]), "release": str(of.run.release)}
    if not rows:
        return [gettext("%(release)s, %(dataset)s: no verdicts on '%(rate)s'.") % words]
    rows.sort(key=lambda row: row[1].value or 0.0)
    if len(rows) <= MODELS_NAMED:
        ends = rows
    else:
        ends = [rows[0], rows[-1]]
    named = "; ".join([_measured(endpoint, measured, rate) for endpoint, measured in ends])
    if others := len(rows) - len(ends):
        named += ngettext("; %(n)d model between them", "; %(n)d models between them", others) % {"n": others}
    first = gettext("%(release)s, %(dataset)s, %(rate)s: %(models)s.") % {**words, "models": named}
    return [first, *_differences(of, rate, dataset, dict(rows).keys())]


def _measured(endpoint: str, measured: MeasuredRate, rate: Rate) -> str:
    """A rate with what it counts: '10.0% (3 of 30, 95% CI 3.5%–25.6%, 30 clusters)'."""
    counted = f"n = {measured.n}"
    if measured.score is None and measured.denominator == measured.n:  # neither points nor weights
        of = {"numerator": measured.numerator, "denominator": measured.denominator}
        counted = gettext("%(numerator)d of %(denominator)d") % of
    parts = [counted]
    if measured.interval:
        low, high = measured.interval
        limits = {"low": format_share(low, percent=rate.percent), "high": format_share(high, percent=rate.percent)}
        parts.append(gettext("95%% CI %(low)s–%(high)s") % limits)
    n = measured.clusters
    parts.append(ngettext("%(n)d cluster", "%(n)d clusters", n) % {"n": n})
    return f"{endpoint} {format_share(measured.value, percent=rate.percent)} ({', '.join(parts)})"


def _differences(of: Report, rate: Rate, dataset: str, measured: Set[str]) -> list[str]:
    """The largest differences on a data set between measured models, of those with an interval."""
    pairs, known = 0, []
    for each in of_rate(of.numbers.comparisons, rate):
        if each.dataset == dataset and {each.first, each.second} <= measured:
            pairs += 1
            if each.difference is not None and each.low is not None:
                known.append(each)
    if pairs and not known:
        return [gettext("Too few samples for intervals, and to say which model differs from which.")]
    known.sort(key=lambda each: -abs(each.difference or 0.0))
    sentences = [_difference(each, rate) for each in known[:DIFFERENCES_NAMED]]
    if rest := pairs - len(sentences):
        text = ngettext("%(n)d more pair is in the table.", "%(n)d more pairs are in the table.", rest)
        sentences.append(text % {"n": rest})
    if sentences:
        return [" ".join(sentences)]
    return []


def _difference(each: ModelComparison, rate: Rate) -> str:
    """Which of two models is higher and by how much; the interval is of this difference."""
    higher, lower, difference, low, high = each.first, each.second, each.difference or 0.0, each.low, each.high
    if difference < 0 and low is not None and high is not None:
        higher, lower, difference, low, high = lower, higher, -difference, -high, -low
    shown = format_difference(difference, rate)
    values = {
        "higher": higher,
        "lower": lower,
        "difference": shown.removeprefix("+"),
        "interval": format_interval(low, high, rate),
        "p": format_p(each.p_adjusted) or "–",
    }
    if shown != format_difference(0.0, rate):
        said = gettext("%(higher)s is %(difference)s above %(lower)s (95%% CI %(interval)s, adjusted p %(p)s).")
    else:
        said = gettext("%(higher)s and %(lower)s are %(difference)s apart (95%% CI %(interval)s, adjusted p %(p)s).")
    said %= values
    if each.p_adjusted is not None and each.p_adjusted >= 0.05:
        said += " " + gettext("This does not show which of the two is higher.")
    return said


def _facts(of: Report) -> list[tuple[str, str]]:
    run = of.run
    judges = judge_names(run)
    if not judges:
        if run.origin == Run.Origin.IMPORTED:
            judges = gettext("not stated")
        else:
            judges = gettext("none: code reads the responses")
    state = str(run.get_status_display())
    if not of.finished:
        state = gettext("%(state)s; unfinished items count as not judged") % {"state": state}
    facts = [
        (gettext("Models"), ", ".join(of.endpoints)),
        (gettext("Judge"), judges),
        (gettext("Data"), _data(of)),
        (gettext("Dates"), run_dates(run)),
        (gettext("State"), state),
    ]
    facts.append((gettext("Clusters of intervals"), cluster_label(of.numbers.cluster_unit)))
    facts.append((gettext("Coverage"), _coverage(of)))
    if of.numbers.withdrawn:
        facts.append((gettext("Withdrawn samples"), _withdrawn(of)))
    if of.undecided:
        n = of.undecided
        text = ngettext(
            "%(n)d sample is reported as wrong and not decided yet; it counts.",
            "%(n)d samples are reported as wrong and not decided yet; they count.",
            n,
        )
        facts.append((gettext("Undecided reports"), text % {"n": n}))
    if of.left_out:
        names = [each.endpoint.name for each in of.left_out]
        facts.append((gettext("Left out"), ", ".join(names)))
    if of.simulated:
        facts.append((gettext("Notice"), gettext("Simulated models: not evidence")))
    return facts


def _coverage(of: Report) -> str:
    """Which models lack verdicts, and how many of how many criteria they have."""
    parts = []
    for each in of.numbers.coverage:
        if not each.complete:
            words = {"model": each.endpoint, "settled": each.settled, "criteria": each.criteria}
            parts.append(gettext("%(model)s: %(settled)d of %(criteria)d criteria, so it has no rank") % words)
    return "; ".join(parts) or gettext("complete")


def _withdrawn(of: Report) -> str:
    """How many samples were withdrawn, and the planned rate with them."""
    n, rate, dataset = of.numbers.withdrawn, of.planned_rate, answered_datasets(of)[0]
    first = ngettext("%(n)d counts nowhere.", "%(n)d count nowhere.", n) % {"n": n}
    shares = []
    for row in of.numbers.with_withdrawn:
        if row.dataset == dataset:
            shares.append(f"{row.endpoint} {format_share(row.rates[rate.name].value, percent=rate.percent)}")
    return first + " " + gettext("With them: %(rates)s.") % {"rates": "; ".join(shares)}


def _data(of: Report) -> str:
    release = of.run.release
    names = [gettext(label) for name, label in of.datasets if name != COMBINED]
    samples = ngettext("%(n)d sample", "%(n)d samples", release.samples_count) % {"n": release.samples_count}
    return f"{release} ({samples}; {', '.join(names)}; SHA-256 {release.sha256[:12]}…)"


def run_dates(run: Run) -> str:
    """The days on which a run was launched and ended."""
    first = last = formats.date_format(timezone.localtime(run.created_at), "DATE_FORMAT")
    if run.finished_at:
        last = formats.date_format(timezone.localtime(run.finished_at), "DATE_FORMAT")
    if first == last:
        return first
    return f"{first} – {last}"
