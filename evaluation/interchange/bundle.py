"""A run as a folder that somebody without MHB can check and repeat: what was asked, said and decided, and its numbers."""

import json
import shutil
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from django.db.models import F, QuerySet

from evaluation import errors
from evaluation.interchange import programs
from evaluation.interchange.evidence import judging
from evaluation.judges.queries import source_clusters, validation_of
from evaluation.metrics import MeasuredRate
from evaluation.models import Judgment, Response, ResponseScore, Run, Vote
from evaluation.protocol import Protocol, Rate
from evaluation.reports import formats, score_lines
from evaluation.reports import queries as reports_queries
from evaluation.reports.numbers.verdict_table import POLARITY
from evaluation.reports.queries import Report
from evaluation.runs import queries
from evaluation.statistics import distributions
from generation.common.chunks import CHUNK, chunked
from generation.models import Facet, ReleasedRubric, ReleasedSample
from generation.releases import archive
from generation.releases.exporters.base import canonical, replacing
from generation.releases.exporters.manifest import Checksums

FORMAT = 2
READABLE = (1, FORMAT)
PROGRAMS = {path.name: path for path in sorted(Path(programs.__path__[0]).glob("verify_*.py"))} | {
    "verify_distributions.py": Path(distributions.__file__)
}
OF_SCORES = "verify_scores.py"  # only where there are some
HELD_OUT = ReleasedSample.Split.HELD_OUT
ARM, SAID = "version__sample__arm", "sample__version__rubrics__polarity"
ORDER = ("sample__position", "endpoint__name", "variant", "repeat")  # of responses
ANSWER = ("endpoint__name", "sample__key", "variant", "repeat", "sample__split")
DECIDED = ("status", "verdict", "error", "explanation")
OPEN = "open"  # of a response that has not ended


def export_run(run: Run, folder: Path, *, with_held_out: bool = False) -> list[Path]:
    """Write the bundle of a run into `folder` (made if absent). Raises RunNotFinished while it works."""
    check_exportable(run)
    folder.mkdir(parents=True, exist_ok=True)
    return list(files_of(run, folder, with_held_out=with_held_out))


def stream(run: Run) -> Iterator[bytes]:
    """The bundle as a zip, block by block, without the texts of held-out samples. Raises RunNotFinished."""
    check_exportable(run)  # at once, and not when half of it is sent
    return archive.zipped(f"run-{run.pk}", lambda folder: files_of(run, folder))


def check_exportable(run: Run) -> None:
    """Raises RunNotFinished while a run works: its numbers would not be those of its rows."""
    if run.status == Run.Status.RUNNING:
        raise errors.RunNotFinished


def files_of(run: Run, folder: Path, *, with_held_out: bool = False) -> Iterator[Path]:
    """Write the files into the existing `folder`, one after the other; each may be removed once it was handed out.

    The same run gives the same bytes. Without `with_held_out`, what held-out samples ask, and the texts about them, are left
    out; their verdicts are there, so that every number can be counted again.
    """
    sums = Checksums(folder)
    report = reports_queries.report(run)
    yield sums.add(_json(folder / "run.json", _about(run, report, with_held_out)))
    yield sums.add(_lines(folder / "samples.jsonl", _samples(run, report)))
    yield sums.add(_lines(folder / "prompts.jsonl", _prompts(run, report.protocol, with_held_out)))
    yield sums.add(_lines(folder / "responses.jsonl", _responses(run, with_held_out)))
    yield sums.add(_lines(folder / "judgments.jsonl", _judgments(run, with_held_out)))
    if run.panel:
        yield sums.add(_lines(folder / "votes.jsonl", _votes(run, with_held_out)))
    if validation := validation_of(run):
        yield sums.add(_lines(folder / "validation.jsonl", judging.drawn(validation, ORDER)))
        yield sums.add(_lines(folder / "physicians.jsonl", judging.physicians(validation, ORDER)))
    yield sums.add(_lines(folder / "calls.jsonl", judging.calls(run)))
    if report.protocol.scores:
        yield sums.add(_lines(folder / "scores.jsonl", _scores(run)))
    yield sums.add(_json(folder / "numbers.json", _numbers(report)))
    yield sums.add(_json(folder / "report.json", json.loads(json.dumps(formats.as_dict(report), default=str))))
    for name, path in PROGRAMS.items():
        if name != OF_SCORES or report.protocol.scores:
            shutil.copyfile(path, folder / name)
            yield sums.add(folder / name)
    yield from sums.write({"run": run.pk, "release": run.release.name, "release_sha256": run.release.sha256})


def _json(path: Path, value: Any) -> Path:
    text = json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False, default=str)
    path.write_text(text + "\n", encoding="utf-8", newline="\n")
    return path


def _lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> Path:
    with replacing(path) as [temporary], temporary.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(canonical(row) + "\n" for row in rows)
    return path


# ---------------------------------------------------------------------------------------------------------------- about


def _about(run: Run, report: Report, with_held_out: bool) -> dict[str, Any]:
    release, protocol = run.release, report.protocol
    settings = ("judging", "transport", "sampling", "seed", "judge_temperature", "fresh")
    told = {"answers": run.answers_each, "judgments": run.judgments_each, "datasets": run.variants}
    return {
        "format": FORMAT,
        "run": run.pk,
        "origin": run.origin,
        "study": run.study,
        "status": run.status,
        "created_at": run.created_at.isoformat(),
        "finished_at": run.finished_at and run.finished_at.isoformat(),
        "release": {
            **{name: getattr(release, name) for name in ("name", "version", "benchmark", "sha256", "held_out_sha256")},
            "samples": release.samples_count,
            "rubrics": release.rubrics_count,
            "held_out": release.held_out_count,
        },
        "settings": {**{name: getattr(run, name) for name in settings}, **told},
        "simulated": report.simulated,
        "simulated_reviewers": bool(release.simulated_samples),
        **judging.about(run, protocol),
        "judge": run.judge and run.judge.name,
        "further_judges": queries.further_judges(run),
        "panel": run.panel,
        "endpoints": list(run.tested.order_by("pk").values_list("endpoint__name", flat=True)),
        "models": [
            {
                "endpoint": each.endpoint,
                "model": each.model,
                "roles": list(each.roles),
                "settings": dict(each.settings),
                "reported": list(each.reported),
                "prompts": list(each.prompts),
            }
            for each in queries.models_asked(run)
        ],
        "protocol": {
            "label": protocol.label,
            "pooled": protocol.pooled,
            "datasets": [
                {"name": one.name, "label": one.label, "task": one.task, "variant": one.variant}
                for one in queries.data_sets_of(run)
            ],
            "facets": [view.name for view in report.views],
            "rates": [_rate(rate, protocol) for rate in report.rates],
            "compared_by": {facet: found[0].rate for facet, found in sorted(report.numbers.cells.items()) if found},
            "scores": [asdict(rule) for rule in protocol.scores],
            "contrasts": [list(each) for each in protocol.contrasts],
            "rivals": sorted(protocol.rivals),
        },
        "plan": {**report.plan.as_json, "frozen": report.plan.frozen},
        "texts_of_held_out_samples": with_held_out,
    }


def _rate(rate: Rate, protocol: Protocol) -> dict[str, Any]:
    """Everything by which it is counted."""
    plain = ("name", "label", "rule", "interval", "unit", "arm", "polarity", "rubric", "weighted", "points")
    return {
        **{name: getattr(rate, name) for name in plain},
        "hits": dict(rate.hits),
        "counted": dict(rate.counted),
        "scope": sorted(rate.scope),
        "weights": dict(rate.weights),
        "better": "low" if protocol.is_lower_better(rate) else "high",
    }


# ----------------------------------------------------------------------------------------------------------------- rows


def _clusters(run: Run) -> dict[int, str]:
    """Sample -> the key of the first sample of the release that comes from the same source record."""
    of = source_clusters(run.release)
    named: dict[int, str] = {}
    rows = ReleasedSample.objects.filter(release=run.release).order_by("position").values_list("pk", "key")
    return {pk: named.setdefault(of[pk], key) for pk, key in rows}


def _samples(run: Run, report: Report) -> Iterator[dict[str, Any]]:
    """Each sample with its rubrics and the values under which they are counted: no text of the release."""
    names = [*(view.name for view in report.views), *(rate.points for rate in report.rates if rate.points)]
    clusters = _clusters(run)
    rows = ReleasedSample.objects.filter(release=run.release).order_by("position")
    for chunk in chunked(rows.values_list("pk", "key", "task", "split", ARM).iterator(chunk_size=CHUNK)):
        rubrics: dict[int, list[dict[str, Any]]] = defaultdict(list)
        facets: dict[int, dict[str, list[str]]] = defaultdict(dict)
        pks = [pk for pk, *_about in chunk]
        found = Facet.objects.filter(rubric__sample__in=pks, name__in=names).order_by("name", "value")
        for rubric, name, value in found.values_list("rubric_id", "name", "value"):
            facets[rubric].setdefault(name, []).append(value)
        has_polarity = {"sample__version__rubrics__key": F("key"), f"{SAID}__in": ["must", "must not"]}
        said = ReleasedRubric.objects.filter(sample__in=pks, **has_polarity)
        for rubric, value in said.values_list("pk", SAID):
            facets[rubric].setdefault(POLARITY, []).append(value)
        of_samples = ReleasedRubric.objects.filter(sample__in=pks).order_by("pk")
        for pk, sample, key in of_samples.values_list("pk", "sample_id", "key"):
            rubrics[sample].append({"key": key, "facets": facets.get(pk, {})})
        for pk, key, task, split, arm in chunk:
            about = {"sample": key, "task": task, "split": split, "arm": arm, "cluster": clusters[pk]}
            yield {**about, "rubrics": rubrics.get(pk, [])}


def _prompts(run: Run, protocol: Protocol, with_held_out: bool) -> Iterator[dict[str, Any]]:
    """What models were asked about each sample, and how a judge is asked about the first of each task; nothing for an imported
    run."""
    if run.origin == Run.Origin.IMPORTED:
        return
    datasets, explained = queries.data_sets_of(run), set[str]()
    rows = ReleasedSample.objects.filter(release=run.release).order_by("position")
    for sample in (rows if with_held_out else rows.exclude(split=HELD_OUT)).iterator(chunk_size=CHUNK):
        for ask in queries.questions(protocol, sample, run.seed, datasets):
            asked = queries.to_send(ask, run.sampling)
            yield {
                "role": "target",
                "sample": sample.key,
                "variant": ask.variant,
                **({"after": ask.after} if ask.after else {}),
                "prompt": asked.prompt,
                "messages": [{"role": one.role, "content": one.text} for one in asked.messages],
                "temperature": asked.temperature,
                "top_p": asked.top_p,
                "max_tokens": asked.max_tokens,
            }
        if protocol.judge is not None and sample.task not in explained:
            explained.add(sample.task)
            yield from _judges_prompt(run, protocol, sample)


def _judges_prompt(run: Run, protocol: Protocol, sample: ReleasedSample) -> Iterator[dict[str, Any]]:
    value = queries.sample_value(sample)
    rubrics = queries.rubric_values(sample)
    if not rubrics or protocol.judge is None:
        return
    if run.judging == Run.Judging.PER_SAMPLE and protocol.whole is not None:
        requests = [protocol.whole.judge(value, rubrics, "", "(the response)")]
    else:
        others = [rubric for rubric in rubrics if rubric.key not in protocol.by_rubric]
        requests = [protocol.judge(value, rubric, "", "(the response)") for rubric in others[:1]]
        own = [(rubric, protocol.by_rubric[rubric.key]) for rubric in rubrics if rubric.key in protocol.by_rubric]
        requests += [how.judge(value, rubric, min(how.variants, default=""), "(the response)") for rubric, how in own]
    for request in requests:
        yield {
            "role": "judge",
            "sample": sample.key,
            "prompt": request.prompt,
            "messages": [{"role": one.role, "content": one.text} for one in request.messages],
            "temperature": run.judge_temperature if request.temperature is None else request.temperature,
        }


def _responses(run: Run, with_held_out: bool) -> Iterator[dict[str, Any]]:
    rows = Response.objects.filter(run=run).order_by(*ORDER)
    columns = (
        *("endpoint__name", "sample__key", "sample__split", "variant", "repeat", "status", "outcome", "about"),
        *("text", "reasoning", "error", "detail", "call__model"),
    )
    for model, sample, split, variant, repeat, status, outcome, about, *rest in _streamed(rows, *columns):
        text, reasoning, error, detail, reported = rest
        shown = with_held_out or split != HELD_OUT
        yield {
            "model": model,
            "sample": sample,
            "variant": variant,
            "repeat": repeat,
            "status": status,
            "outcome": outcome or OPEN,
            "error": error,
            "detail": detail,
            "about": about,
            "reported_model": reported or "",
            **({"text": text, "reasoning": reasoning} if shown else {"withheld": True}),
        }


def _judgments(run: Run, with_held_out: bool) -> Iterator[dict[str, Any]]:
    rows = Judgment.objects.filter(run=run).order_by(*(f"response__{name}" for name in ORDER), "rubric__pk")
    columns = (*(f"response__{name}" for name in ANSWER), "rubric__key", *DECIDED)
    for model, sample, variant, repeat, split, rubric, status, verdict, error, explanation in _streamed(rows, *columns):
        shown = with_held_out or split != HELD_OUT
        yield {
            "model": model,
            "sample": sample,
            "variant": variant,
            "repeat": repeat,
            "rubric": rubric,
            "status": status,
            "verdict": verdict,
            "error": error,
            **({"explanation": explanation} if shown else {"withheld": True}),
        }


def _scores(run: Run) -> Iterator[dict[str, Any]]:
    """What code gave responses beside their verdicts."""
    rows = ResponseScore.objects.filter(run=run).order_by(*(f"response__{name}" for name in ORDER), "rubric__pk")
    columns = (*(f"response__{name}" for name in ANSWER[:4]), "rubric__key", "names", "numbers")
    for model, sample, variant, repeat, rubric, names, numbers in _streamed(rows, *columns):
        scores = dict(zip(names.split(), map(float, numbers.split()), strict=True))
        about = {"model": model, "sample": sample, "variant": variant, "repeat": repeat, "rubric": rubric}
        yield {**about, "scores": scores}


def _votes(run: Run, with_held_out: bool) -> Iterator[dict[str, Any]]:
    """Every vote of a panel; `vote`: which of the judge's own, from 0."""
    order = (*(f"judgment__response__{name}" for name in ORDER), "judgment__rubric__pk", "judge__name", "repeat")
    rows = Vote.objects.filter(run=run).order_by(*order)
    columns = (*(f"judgment__response__{name}" for name in ANSWER), "judgment__rubric__key", "judge__name", "repeat")
    for model, sample, variant, repeat, split, rubric, judge, vote, *decided in _streamed(rows, *columns, *DECIDED):
        status, verdict, error, explanation = decided
        shown = with_held_out or split != HELD_OUT
        yield {
            "model": model,
            "sample": sample,
            "variant": variant,
            "repeat": repeat,
            "rubric": rubric,
            "judge": judge,
            "vote": vote,
            "status": status,
            "verdict": verdict,
            "error": error,
            **({"explanation": explanation} if shown else {"withheld": True}),
        }


def _streamed(rows: QuerySet[Any], *columns: str) -> Iterator[tuple[Any, ...]]:
    return rows.values_list(*columns).iterator(chunk_size=CHUNK)


# -------------------------------------------------------------------------------------------------------------- numbers


def _numbers(report: Report) -> dict[str, Any]:
    """Every count and rate of the report, in the form that `verify_run.py` counts again."""
    found = report.numbers
    placed = [("", row) for row in report.overall]
    placed += [(name, row) for name, rows in sorted(report.facets.items()) for row in rows]
    scored = [("", row) for row in found.scores]
    scored += [(name, row) for name, rows in sorted(found.score_facets.items()) for row in rows]
    compared = [("", each) for each in found.comparisons]
    compared += [(name, each) for name, some in sorted(found.cells.items()) for each in some]
    return {
        "rows": [
            {
                "model": row.endpoint,
                "dataset": row.dataset,
                "facet": facet,
                "value": row.value,
                "verdicts": {verdict: n for verdict, n in sorted(row.verdicts.items()) if n},
                "rates": {name: _measured(each) for name, each in row.rates.items()},
            }
            for facet, row in placed
        ],
        "scores": [
            {
                "model": row.endpoint,
                "dataset": row.dataset,
                "facet": facet,
                "value": row.value,
                "scores": {name: score_lines.measured(each) for name, each in row.scores.items()},
            }
            for facet, row in scored
        ],
        "outcomes": [asdict(each) for each in found.endings],
        "comparisons": [{"facet": facet, **asdict(each)} for facet, each in compared],
        "changes": [asdict(each) for each in found.changes],
        "without": dict(sorted(report.without.items())),
    }


def _measured(rate: MeasuredRate) -> dict[str, Any]:
    """A rate; `method`: by which `low` and `high` were made."""
    names = ("numerator", "denominator", "excluded", "value", "clusters", "n", "method", "low", "high")
    return {
        **{name: getattr(rate, name) for name in names},
        "bounds": asdict(rate.bounds) if rate.bounds else None,
    }
