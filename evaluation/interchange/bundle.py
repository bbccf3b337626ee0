"""Bundles: a run as files that anyone can check and repeat without MHB.

A bundle has the questions, answers, verdicts and numbers of the run, and names the program that
counts them again: `mhb-check`, by its version and the digest of its modules.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from django.db.models import F

import evaluation
from evaluation import errors
from evaluation.claims.claims import Claims
from evaluation.claims.queries import claims
from evaluation.interchange.programs import modules, verify_run
from evaluation.interchange.programs.bundle_rows import OPEN
from evaluation.interchange.provenance import judging
from evaluation.interchange.provenance.software import software
from evaluation.judges import summary
from evaluation.judges.queries import validation_of
from evaluation.judges.summary import verdicts_given
from evaluation.models import Judgment, Response, ResponseScore, Run, VoidVerdict, Vote
from evaluation.numbers import values
from evaluation.numbers.late import pl
from evaluation.numbers.rules import POLARITY
from evaluation.protocol import Ask, Protocol
from evaluation.reports import formats
from evaluation.reports import queries as reports_queries
from evaluation.reports.documents import how_judged
from evaluation.reports.queries import Report
from evaluation.runs import queries
from evaluation.runs.verdicts import load_samples, policy_verdicts, verdicts_again, warm_votes
from generation.common.chunks import CHUNK, chunked
from generation.llm.types import Request
from generation.models import Facet, ReleasedRubric, ReleasedSample
from generation.releases import archive
from generation.releases.export import metadata
from generation.releases.exporters.base import canonical, replace_files
from generation.releases.exporters.croissant import croissant
from generation.releases.exporters.manifest import Checksums
from review.audit import exports

FORMAT = verify_run.FORMAT
READABLE_FORMATS = range(1, FORMAT + 1)
ROOT = Path(evaluation.__file__).parents[1]
HELD_OUT = ReleasedSample.Split.HELD_OUT
ARM, POLARITY_COLUMN = "version__sample__arm", "sample__version__rubrics__polarity"
# The columns of fields in the files.
REPLY_COLUMNS = {"reported_model": "call__model", "system_fingerprint": "call__fingerprint"}
VERDICT_COLUMNS = {name: name for name in ("status", "verdict", "error", "explanation")}


def export_run(run: Run, folder: Path, *, with_held_out: bool = False) -> list[Path]:
    """Write the bundle of a run into `folder`, which is created if missing.

    Raises RunNotFinished while the run is in progress.
    """
    check_exportable(run)
    folder.mkdir(parents=True, exist_ok=True)
    return list(files_of(run, folder, with_held_out=with_held_out))


def stream(run: Run) -> Iterator[bytes]:
    """The bundle as blocks of a zip file, without the texts of held-out samples.

    Raises RunNotFinished.
    """
    check_exportable(run)  # here, before a part of the zip is sent
    return archive.zipped(f"run-{run.pk}", lambda folder: files_of(run, folder))


def check_exportable(run: Run) -> None:
    """Raise RunNotFinished while a run is in progress, when numbers and rows would not match."""
    if run.status == Run.Status.RUNNING:
        raise errors.RunNotFinished


def files_of(run: Run, folder: Path, *, with_held_out: bool = False) -> Iterator[Path]:
    """Write the files of a bundle into the existing `folder`, and yield each path once complete.

    The caller may remove a file as soon as it was yielded. The same run gives the same bytes.
    Unless `with_held_out`, the questions of held-out samples and all texts about them are left out.
    Their verdicts are included, so that every number can be recomputed.
    """
    sums = Checksums(folder)
    report = reports_queries.report(run)
    yield sums.add(_json(folder / "run.json", _run_document(run, report, with_held_out)))
    yield sums.add(_lines(folder / "samples.jsonl", _samples(run, report)))
    yield sums.add(_lines(folder / "prompts.jsonl", _prompts(run, report.protocol, with_held_out)))
    yield sums.add(_lines(folder / "responses.jsonl", _responses(run, with_held_out)))
    yield sums.add(_lines(folder / "judgments.jsonl", _judgments(run, with_held_out)))
    if voids := VoidVerdict.objects.filter(run=run):
        columns = {"rubric": "rubric__key", "void": "reason"}
        yield sums.add(
            _lines(folder / "voids.jsonl", judging.rows_on_answers(voids, "response__", columns, "rubric__pk"))
        )
    if run.panel:
        yield sums.add(_lines(folder / "votes.jsonl", _votes(run, with_held_out)))
    if run.policies:
        yield sums.add(_lines(folder / "policies.jsonl", _policy_verdicts(run)))
    if not (again := verdicts_again(run)).is_empty():
        yield sums.add(_lines(folder / "again.jsonl", _verdicts_again(run, again)))
    if validation := validation_of(run):
        yield sums.add(_lines(folder / "validation.jsonl", judging.validation_rows(validation)))
        yield sums.add(_lines(folder / "physicians.jsonl", judging.physician_rows(validation)))
    yield sums.add(_lines(folder / "calls.jsonl", judging.call_rows(run)))
    if run.judge_id and run.origin == Run.Origin.LAUNCHED:
        yield sums.add(_lines(folder / "judge_replies.jsonl", judging.reply_rows(run)))
    if report.protocol.scores:
        yield sums.add(_lines(folder / "scores.jsonl", _scores(run)))
    yield sums.add(_json(folder / "numbers.json", values.by_model(report.numbers)))
    yield sums.add(_json(folder / "report.json", json.loads(json.dumps(formats.as_dict(report), default=str))))
    found = claims(run, report, summary.validation(run))
    yield sums.add(_json(folder / "claims.json", found.as_json()))
    yield sums.add(_json(folder / "croissant.json", _card(run, found, sums)))
    last = sums.write({"run": run.pk, "release": run.release.name, "release_sha256": run.release.sha256})
    exports.anchor(folder, verify_run.title({"run": run.pk, "release": {"sha256": run.release.sha256}}))
    yield from last


def _card(run: Run, found: Claims, sums: Checksums) -> dict[str, Any]:
    """The bundle as Croissant, whose RAI vocabulary says what the run shows of the release."""
    about = metadata(run.release)
    about["description"] = f"Run {run.pk}: answers and verdicts on {run.release.reference}."
    said = [claim.sentence for claim in found.claims]
    rai = {**about["rai"], "dataLimitations": [*about["rai"]["dataLimitations"], *said]}
    if run.judge_id:
        rai["machineAnnotationTools"] = [*rai.get("machineAnnotationTools", ()), how_judged(run)]
    about["rai"] = rai
    return croissant(about, sums.entries, {})


def _json(path: Path, value: Any) -> Path:
    text = json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False, default=str)
    path.write_text(text + "\n", encoding="utf-8", newline="\n")
    return path


def _lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> Path:
    with replace_files(path) as [temporary], temporary.open("w", encoding="utf-8", newline="\n") as file:
        for row in rows:
            file.write(canonical(row) + "\n")
    return path


# ----------------------------------------------------------------------------------------- run.json


def _run_document(run: Run, report: Report, with_held_out: bool) -> dict[str, Any]:
    release = run.release
    prompt_set = None
    if run.prompt_set:
        prompt_set = dict(run.prompt_set.texts)
    return {
        "format": FORMAT,
        "run": run.pk,
        "origin": run.origin,
        "study": run.study,
        "status": run.status,
        "panel": run.panel,
        "estimated": run.estimated,
        "created_at": run.created_at.isoformat(),
        "finished_at": run.finished_at and run.finished_at.isoformat(),
        "release": {
            "name": release.name,
            "version": release.version,
            "benchmark": release.benchmark,
            "sha256": release.sha256,
            "held_out_sha256": release.held_out_sha256,
            "samples": release.samples_count,
            "rubrics": release.rubrics_count,
            "held_out": release.held_out_count,
        },
        "settings": {
            "judging": run.judging,
            "transport": run.transport,
            "sampling": run.sampling,
            "seed": run.seed,
            "judge_temperature": run.judge_temperature,
            "fresh": run.fresh,
            "prompts": run.prompts,
            "prompts_sha256": run.prompts_sha256,
            "answers": run.answers_each,
            "judgments": run.judgments_each,
            "datasets": run.variants,
        },
        "simulated": report.simulated,
        "simulated_reviewers": bool(release.simulated_samples),
        "undecided_reports": report.undecided,
        **judging.run_fields(run, report.protocol),
        "judge": run.judge and run.judge.name,
        "further_judges": queries.further_judges(run),
        "judges_left_out": [each.endpoint.name for each in report.left_out if each.role == queries.JUDGE],
        "endpoints": list(run.tested.order_by("pk").values_list("endpoint__name", flat=True)),
        "policies": run.policies,
        "models": [asdict(model) for model in queries.models_asked(run)],
        "protocol": _protocol_document(run, report),
        "cluster_unit": report.numbers.cluster_unit,
        "plan": {**report.plan.as_json, "frozen": report.plan.frozen},
        "prompt_set": prompt_set,
        "made_with": software(),
        "check": {"name": modules.NAME, "version": modules.VERSION, "sha256": modules.digest(ROOT)},
        "texts_of_held_out_samples": with_held_out,
    }


def _protocol_document(run: Run, report: Report) -> dict[str, Any]:
    """How the verdicts of a run are counted."""
    protocol = report.protocol
    rates = {rate.name: rate.as_json() for rate in (*protocol.rates, *report.rates)}
    datasets = []
    for dataset in queries.data_sets_of(run):
        names = {"name": dataset.name, "label": dataset.label}
        datasets.append({**names, "task": dataset.task, "variant": dataset.variant})
    views = []
    for view in report.numbers.views:
        labels = {row.value: row.label for row in report.numbers.facets[view.name]}
        views.append({"name": view.name, "label": view.label, "rate": view.rate, "values": list(labels.items())})
    return {
        "label": protocol.label,
        "pooled": protocol.pooled,
        "datasets": datasets,
        "views": views,
        "rates": list(rates.values()),
        "verdicts": dict(protocol.verdicts),
        "given": verdicts_given(run, protocol),
        "outcomes": dict(protocol.outcomes),
        "presets": {name: dict(preset.outcomes) for name, preset in protocol.presets.items()},
        "wrong": sorted(protocol.failing_verdicts),
        "scores": list(map(asdict, protocol.scores)),
        "contrasts": list(map(list, protocol.contrasts)),
        "rivals": sorted(protocol.rivals),
        "variants_of": protocol.variants_of,
    }


# --------------------------------------------------------------------------------------------- rows


def _clusters(run: Run, samples: pl.DataFrame) -> dict[int, str]:
    """Primary key of each sample -> key of the first sample of the same cluster."""
    cluster_of = dict(samples.select("sample", "cluster").iter_rows())
    names: dict[int, str] = {}
    first_of: dict[int, str] = {}
    rows = ReleasedSample.objects.filter(release=run.release).order_by("position").values_list("pk", "key")
    for pk, key in rows:
        first_of[pk] = names.setdefault(cluster_of[pk], key)
    return first_of


def _samples(run: Run, report: Report) -> Iterator[dict[str, Any]]:
    """Each sample with its rubrics and their facet values, without any text of the release."""
    names = {view.name for view in report.numbers.views}
    for rate in report.rates:
        if rate.score:
            names.update(rate.score.facets)
    loaded = load_samples(run.release)
    clusters, withdrawn = _clusters(run, loaded), set(loaded.filter("withdrawn")["sample"])
    rows = ReleasedSample.objects.filter(release=run.release).order_by("position")
    for chunk in chunked(rows.values_list("pk", "key", "task", "split", ARM).iterator(chunk_size=CHUNK)):
        rubrics: dict[int, list[dict[str, Any]]] = defaultdict(list)
        facets: dict[int, dict[str, list[str]]] = defaultdict(dict)
        pks = [pk for pk, *_rest in chunk]
        facet_rows = Facet.objects.filter(rubric__sample__in=pks, name__in=names).order_by("name", "value")
        for rubric, name, value in facet_rows.values_list("rubric_id", "name", "value"):
            facets[rubric].setdefault(name, []).append(value)
        has_polarity = {"sample__version__rubrics__key": F("key"), f"{POLARITY_COLUMN}__in": ["must", "must not"]}
        with_polarity = ReleasedRubric.objects.filter(sample__in=pks, **has_polarity)
        for rubric, value in with_polarity.values_list("pk", POLARITY_COLUMN):
            facets[rubric].setdefault(POLARITY, []).append(value)
        rubric_rows = ReleasedRubric.objects.filter(sample__in=pks).order_by("pk")
        for pk, sample, key in rubric_rows.values_list("pk", "sample_id", "key"):
            rubrics[sample].append({"key": key, "facets": facets.get(pk, {})})
        for pk, key, task, split, arm in chunk:
            fields = {"sample": key, "task": task, "split": split, "arm": arm, "cluster": clusters[pk]}
            fields["withdrawn"] = pk in withdrawn
            yield {**fields, "rubrics": rubrics.get(pk, [])}


def _prompts(run: Run, protocol: Protocol, with_held_out: bool) -> Iterator[dict[str, Any]]:
    """The questions about each sample, and the judge's prompts for the first sample of each task.

    A question that models get in their own formats has a row for each format, with their names.
    Empty for an imported run.
    """
    if run.origin == Run.Origin.IMPORTED:
        return
    datasets, tasks_with_judge_prompts = queries.data_sets_of(run), set[str]()
    models = list(run.tested.order_by("pk").values_list("endpoint__name", "endpoint__model"))
    if protocol.ask_model is None:
        models = models[:1]
    rows = ReleasedSample.objects.filter(release=run.release).order_by("position")
    if not with_held_out:
        rows = rows.exclude(split=HELD_OUT)
    for sample in rows.iterator(chunk_size=CHUNK):
        with queries.prompts_of(run):
            asks = queries.questions(protocol, sample, run.seed, datasets)
        for ask in asks:
            rows_of: dict[str, dict[str, Any]] = {}
            models_of: dict[str, list[str]] = defaultdict(list)
            for name, model in models:
                with queries.prompts_of(run):
                    asked = queries.asked_of(protocol, sample, ask, model)
                row = _question_row(sample, ask, queries.model_request(asked, run.sampling))
                rows_of[json.dumps(row)] = row
                models_of[json.dumps(row)].append(name)
            for key, row in rows_of.items():
                only = {}
                if len(rows_of) > 1:
                    only = {"models": models_of[key]}
                yield {**row, **only}
        if protocol.judge is not None and sample.task not in tasks_with_judge_prompts:
            tasks_with_judge_prompts.add(sample.task)
            with queries.prompts_of(run):
                judge_prompts = list(_judge_prompts(run, protocol, sample))
            yield from judge_prompts


def _messages(request: Request) -> list[dict[str, str]]:
    return [{"role": message.role, "content": message.text} for message in request.messages]


def _question_row(sample: ReleasedSample, ask: Ask, request: Request) -> dict[str, Any]:
    after = {}
    if ask.after:
        after = {"after": ask.after}
    return {
        "role": "target",
        "sample": sample.key,
        "variant": ask.variant,
        **after,
        "prompt": request.prompt,
        "messages": _messages(request),
        "temperature": request.temperature,
        "top_p": request.top_p,
        "max_tokens": request.max_tokens,
    }


def _judge_prompts(run: Run, protocol: Protocol, sample: ReleasedSample) -> Iterator[dict[str, Any]]:
    """The prompt for all rubrics, or for the first one and those that are judged differently."""
    rubrics = queries.rubric_values(sample)
    preset = run.plan.get("preset", "")
    calls = []
    if rubrics:
        calls = queries.example_judgings(protocol, sample, rubrics, run.judging, preset=preset)
    usual: list[Request] = []
    special: list[Request] = []
    for key, request, _shape in calls:
        if key in protocol.by_rubric:
            special.append(request)
        else:
            usual.append(request)
    for request in (*usual[:1], *special):
        temperature = request.temperature
        if temperature is None:
            temperature = run.judge_temperature
        yield {
            "role": "judge",
            "sample": sample.key,
            "prompt": request.prompt,
            "messages": _messages(request),
            "temperature": temperature,
        }


def _policy_verdicts(run: Run) -> Iterator[dict[str, Any]]:
    """The verdicts on fixed texts, which are no text of the release."""
    keys = dict(ReleasedSample.objects.filter(release=run.release_id).values_list("pk", "key"))
    for policy, sample, variant, rubric, verdict, error in policy_verdicts(run).iter_rows():
        names = {"policy": policy, "sample": keys[sample], "variant": variant, "rubric": rubric}
        yield {**names, "verdict": verdict, "error": error}


def _verdicts_again(run: Run, again: pl.DataFrame) -> Iterator[dict[str, Any]]:
    """The verdicts on what was asked or judged again, without the texts."""
    columns = ("pk", "endpoint__name", "sample__key", "variant", "repeat")
    asked = Response.objects.filter(pk__in=again["response"].unique().to_list()).values_list(*columns)
    answers = {}
    for pk, model, sample, variant, repeat in asked:
        answers[pk] = {"model": model, "sample": sample, "variant": variant, "repeat": repeat}
    keys = dict(ReleasedRubric.objects.filter(sample__release=run.release_id).values_list("pk", "key"))
    for kind, judge, response, rubric, said in again.iter_rows():
        yield {"kind": kind, "judge": judge, **answers[response], "rubric": keys[rubric], "verdict": said}


def _responses(run: Run, with_held_out: bool) -> Iterator[dict[str, Any]]:
    own = ("status", "error", "detail", "about", "outcome", "like_reasoning", "text", "reasoning")
    times = {"read_at": "call__started_at", "paid_at": "call__hit_of__started_at"}
    columns = {**{name: name for name in own}, **REPLY_COLUMNS, **times, "split": "sample__split"}
    rows = judging.rows_on_answers(Response.objects.filter(run=run), "", columns)
    for row in _withheld(rows, with_held_out, "text", "reasoning"):
        read_at, paid_at = row.pop("read_at"), row.pop("paid_at")
        oddity = reports_queries.oddity_of(row["outcome"], row["detail"], row.pop("like_reasoning"))
        if row.get("withheld"):
            del row["detail"]  # an error may quote the answer
        replied_at = paid_at or read_at
        for name in REPLY_COLUMNS:
            row[name] = row[name] or ""
        yield {
            **row,
            "outcome": row["outcome"] or OPEN,
            "oddity": oddity,
            "replied_at": replied_at and replied_at.isoformat(),
            "reused": paid_at is not None,
        }


def _judgments(run: Run, with_held_out: bool) -> Iterator[dict[str, Any]]:
    columns = {"rubric": "rubric__key", **VERDICT_COLUMNS, "split": "response__sample__split"}
    rows = judging.rows_on_answers(Judgment.objects.filter(run=run), "response__", columns, "rubric__pk")
    return _withheld(rows, with_held_out, "explanation")


def _scores(run: Run) -> Iterator[dict[str, Any]]:
    """The scores that code assigned to responses."""
    columns = {"rubric": "rubric__key", "names": "names", "numbers": "numbers"}
    for row in judging.rows_on_answers(ResponseScore.objects.filter(run=run), "response__", columns, "rubric__pk"):
        names, numbers = row.pop("names").split(), map(float, row.pop("numbers").split())
        yield {**row, "scores": dict(zip(names, numbers, strict=True))}


def _votes(run: Run, with_held_out: bool) -> Iterator[dict[str, Any]]:
    """Every vote of a panel that was cast. `vote` numbers those of a judge on a rubric, from 0.

    `warm`: whether the endpoint had a part of the prompt in its cache; null if it does not say.
    """
    cast = Vote.objects.filter(run=run).exclude(status=Vote.Status.DROPPED)
    columns = {
        "pk": "pk",
        "rubric": "judgment__rubric__key",
        "judge": "judge__name",
        "vote": "repeat",
        **VERDICT_COLUMNS,
    }
    columns |= {"split": "judgment__response__sample__split"}
    order = ("judgment__rubric__pk", "judge__name", "repeat")
    rows, warm = judging.rows_on_answers(cast, "judgment__response__", columns, *order), warm_votes(run)
    for row in _withheld(rows, with_held_out, "explanation"):
        row["warm"] = warm.get(row.pop("pk"))
        yield row


def _withheld(rows: Iterable[dict[str, Any]], with_held_out: bool, *texts: str) -> Iterator[dict[str, Any]]:
    """The rows, those of held-out samples without their texts unless `with_held_out`."""
    for row in rows:
        if row.pop("split") == HELD_OUT and not with_held_out:
            for name in texts:
                del row[name]
            row["withheld"] = True
        yield row
