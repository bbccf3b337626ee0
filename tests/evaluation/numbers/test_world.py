"""A world of known truth: verdicts are deleted, withdrawn, invalidated and half imported at random.

Each number of report, API, downloads, bundle, check, comparison, leaderboard and public page is
compared with a count by hand over what the world says, denominators included.
"""

import csv
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from random import Random
from typing import Any

import polars as pl
import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from evaluation import registry
from evaluation.interchange import bundle, importing
from evaluation.interchange.comparing import compare_runs
from evaluation.interchange.files import VerdictRow
from evaluation.interchange.programs import verify_run
from evaluation.models import Judgment, Response, Run, RunEndpoint, VoidVerdict
from evaluation.numbers.rules import ANSWERED, COMBINED, EXCLUDED, JUDGED, POLARITY, RUBRIC
from evaluation.protocol import DataSet, Protocol, Rate
from evaluation.releases import services as releases_services
from evaluation.releases.leaderboard import incomplete_results, leaderboard
from evaluation.reports import formats, queries
from evaluation.runs.plan import default_rules
from evaluation.runs.queries import data_sets_in
from evaluation.runs.verdicts import run_frame
from generation.models import Erratum, Facet, Release, ReleasedRubric, ReleasedSample, Sample, SampleVersion
from review.models import User
from review.rules.permissions import OPERATOR
from tests.api.conftest import Api, api
from tests.engine import bare_release
from tests.evaluation.test_pages import model

__all__ = ["api"]
pytestmark = pytest.mark.django_db
BENCHMARKS = ("mhb", "healthbench", "medhal", "medhallu", "clinhallu", "medmistake")
MODELS = ("whole", "half")
SAMPLES = 13  # of each task: enough for an interval
SEVERITY = {"R1": "mild", "R2": "severe"}
COLUMNS = {"numerator": "numerator", "denominator": "denominator", "unjudged": "left_out", "n": "n"}  # in CSV files


@dataclass
class Answer:
    """A model's answer in the world, and what is said about each criterion: a verdict, or None."""

    outcome: str = ANSWERED
    verdicts: dict[str, str | None] = field(default_factory=dict)
    void: bool = False
    exists: bool = True


@dataclass
class World:
    """What is true of a run."""

    run: Run
    protocol: Protocol
    datasets: tuple[DataSet, ...]
    points: dict[int, float]  # of rubrics
    answers: dict[tuple[str, str, ReleasedSample], Answer]  # model, data set, sample
    withdrawn: set[ReleasedSample] = field(default_factory=set)
    controls: set[ReleasedSample] = field(default_factory=set)

    def counted(self, name: str, dataset: str, *, is_control: bool = False) -> list[list[tuple[str, str]]]:
        """(key, what it counts as, '' for nothing) of each criterion, by sample of an arm."""
        rules, result = default_rules(self.protocol), []
        for (model_name, of_dataset, sample), answer in self.answers.items():
            if (model_name, of_dataset) != (name, dataset) or sample in self.withdrawn:
                continue
            if (sample in self.controls) != is_control:
                continue
            rule = rules[answer.outcome]
            criteria = []
            for key, verdict in answer.verdicts.items():
                counts_as = verdict or ""
                if rule not in (JUDGED, EXCLUDED) and answer.exists:
                    counts_as = rule
                if rule == EXCLUDED or answer.void or not answer.exists:
                    counts_as = ""
                criteria.append((key, counts_as))
            result.append(criteria)
        return result

    def truth(self, rate: Rate, name: str, dataset: str) -> tuple[float, float, int]:
        """Numerator, denominator and exclusions of a rate, counted by hand."""
        if dataset == COMBINED:
            parts = [self.truth(rate, name, each.name) for each in self.datasets]
            hits, counted, excluded = (sum(column) for column in zip(*parts, strict=True))
            return hits, counted, excluded
        hits = counted = excluded = 0
        for criteria in self.counted(name, dataset, is_control=rate.arm == "control"):
            own = [(key, word) for key, word in criteria if is_about(rate, key)]
            if rate.weights:
                for key, word in own:
                    weight = rate.weights.of.get(SEVERITY.get(key, ""))
                    if weight is None or word not in rate.scope_verdicts:
                        excluded += 1
                    else:
                        hits += weight * rate.hits.get(word, 0)
                        counted += weight * rate.counted.get(word, 0)
                continue
            own_words = [word for _key, word in own]
            known = [word for word in own_words if word in rate.scope_verdicts]
            if rate.unit == "sample":
                hits += any(rate.hits.get(word) for word in known)
                counted += bool(known)
                excluded += not known and bool(own_words)
            else:
                hits += sum(rate.hits.get(word, 0) for word in known)
                counted += sum(rate.counted.get(word, 0) for word in known)
                excluded += len(own_words) - len(known)
        return hits, counted, excluded

    def score(self, name: str, dataset: str) -> tuple[float | None, int]:
        """HealthBench's score, and how many samples have one."""
        scores = []
        for (model_name, of_dataset, sample), answer in self.answers.items():
            if (model_name, of_dataset) != (name, dataset) or sample in self.withdrawn:
                continue
            rubrics = {rubric.key: self.points[rubric.pk] for rubric in sample.rubrics.all()}
            whole = answer.exists and not answer.void and all(answer.verdicts.values())
            if whole:
                reached = sum(rubrics[key] for key, word in answer.verdicts.items() if word == "met")
                scores.append(reached / sum(points for points in rubrics.values() if points > 0))
        return (sum(scores) / len(scores) if scores else None), len(scores)

    @property
    def complete(self) -> set[str]:
        """The models of which nothing is missing."""
        missing = {
            name
            for (name, _dataset, sample), answer in self.answers.items()
            if sample not in self.withdrawn and (not answer.exists or answer.void or None in answer.verdicts.values())
        }
        return set(MODELS) - missing


def is_about(rate: Rate, key: str) -> bool:
    """Whether a rate is about criteria with this key. All criteria say what must not happen."""
    return rate.only is None or rate.only == (POLARITY, "must not") or rate.only.value == key


def released(benchmark: str, tasks: list[str]) -> tuple[Release, dict[int, float], set[ReleasedSample]]:
    """A release with samples of their own, of one to three criteria with points and severities.

    With the ids of rubrics and their points, and the control samples.
    """
    first = bare_release(("dialogue", [["A1"]])).samples.get()
    release = Release.objects.create(
        name=f"world-{benchmark}", version=1, benchmark=benchmark, samples_count=SAMPLES * len(tasks), rubrics_count=0,
        counts={"task": {task: {"samples": SAMPLES, "rubrics": SAMPLES} for task in tasks}},
        generators=[], sources=[], simulated=False, sha256=f"{len(benchmark):064}", created_at=timezone.now(),
    )  # fmt: skip
    rates = registry.protocol(benchmark).rates
    keys = sorted({rate.only.value for rate in rates if rate.only and rate.only.facet == RUBRIC}) or ["R1", "R2", "R3"]
    has_controls = any(rate.arm == "control" for rate in rates)
    points: dict[int, float] = {}
    controls: set[ReleasedSample] = set()
    for position in range(SAMPLES * len(tasks)):
        is_control = has_controls and position % 5 > 2
        version = _version_of_its_own(first.version, "control" if is_control else "trap")
        sample = ReleasedSample.objects.create(
            release=release, position=position, version=version, key=f"w-{position:03}",
            task=tasks[position % len(tasks)], exported=first.exported,
        )  # fmt: skip
        for number, key in enumerate(keys):
            rubric = ReleasedRubric.objects.create(sample=sample, key=key, criterion="Says so.", traps=[])
            points[rubric.pk] = float((5, 3, -2)[number % 3])
            Facet.objects.create(rubric=rubric, name="points", value=f"{points[rubric.pk]:g}")
            version.rubrics.create(key=key, criterion="Says so.", polarity="must not", traps=[])
            if key in SEVERITY:
                Facet.objects.create(rubric=rubric, name="severity", value=SEVERITY[key])
        if is_control:
            controls.add(sample)
    return release, points, controls


def _version_of_its_own(version: SampleVersion, arm: str = "trap") -> SampleVersion:
    """A version of a sample of its own, from a record of its own."""
    made = SampleVersion.objects.select_related("sample__record", "draft", "case").get(pk=version.pk)
    number = SampleVersion.objects.count()
    record, sample, draft, case = made.sample.record, made.sample, made.draft, made.case
    record.pk, record.external_id = None, f"world-{number}"
    record.save()
    sample.pk, sample.record, sample.status, sample.arm = None, record, Sample.Status.APPROVED, arm
    sample.save()
    draft.pk, draft.record, draft.sample = None, record, None
    draft.save()
    case.pk, case.lineage = None, f"world:{number}"
    case.save()
    made.pk, made.sample, made.draft, made.case, made.status = None, sample, draft, case, "approved"
    made.save()
    return made


def made_world(benchmark: str) -> World:
    """An empty run on a release of the benchmark, and what is to be true of it."""
    protocol = registry.protocol(benchmark)
    tasks = list(dict.fromkeys(data.task for data in protocol.datasets))[:2]
    release, points, controls = released(benchmark, tasks)
    datasets = tuple(data for data in protocol.datasets if data.task in tasks)
    return World(_run_of(release), protocol, datasets, points, {}, controls=controls)


def _run_of(release: Release) -> Run:
    protocol, now = registry.protocol(release.benchmark), timezone.now()
    judge = model("judge") if protocol.judge else None
    run = Run.objects.create(
        release=release, judge=judge, status=Run.Status.FINISHED, created_at=now, finished_at=now,
        judge_temperature=protocol.judge_temperature, variants=[data.name for data in data_sets_in(release)],
        origin=Run.Origin.IMPORTED, study=f"world {Run.objects.count()}",
    )  # fmt: skip
    for name in MODELS:
        RunEndpoint.objects.create(run=run, endpoint=model(name))
    return run


def fill(world: World, seed: int) -> None:
    """Answers and verdicts of both models: good ones and bad ones, refusals, and odd outcomes."""
    dice, run, protocol = Random(seed), world.run, world.protocol
    counted = sorted({word for rate in protocol.rates for word in rate.scope_verdicts} & protocol.judge_verdicts)
    samples = list(run.release.samples.order_by("position").prefetch_related("rubrics"))
    for tested in run.tested.select_related("endpoint"):
        for data in world.datasets:
            for sample in (each for each in samples if each.task == data.task):
                outcome = dice.choice([ANSWERED] * 8 + ["refused", "empty"])
                response = Response.objects.create(
                    run=run, endpoint=tested.endpoint, sample=sample, variant=data.variant, status="done",
                    outcome=outcome, text="An answer." if outcome == ANSWERED else "",
                )  # fmt: skip
                answer = world.answers[tested.endpoint.name, data.name, sample] = Answer(outcome)
                for rubric in sample.rubrics.all():
                    if not protocol.rubric_applies(rubric.key, data.variant):
                        continue
                    of_rate = [rate for rate in protocol.rates if rate.only and is_about(rate, rubric.key)]
                    words = sorted({w for rate in of_rate for w in rate.counted}) or counted
                    verdict = answer.verdicts[rubric.key] = dice.choice(words)
                    Judgment.objects.create(run=run, response=response, rubric=rubric, verdict=verdict, status="done")
    Run.objects.filter(pk=run.pk).update(rubrics_total=run.judgments.count(), responses_total=run.responses.count())


def disturb(world: World, seed: int) -> None:
    """Delete verdicts and answers of one model, invalidate some, and withdraw samples."""
    dice, run = Random(seed), world.run
    for (name, dataset, sample), answer in world.answers.items():
        if name != "half":
            continue
        variant = next(data.variant for data in world.datasets if data.name == dataset)
        response = Response.objects.get(run=run, endpoint__name=name, sample=sample, variant=variant)
        chance = dice.random()
        if chance < 0.25:
            response.judgments.all().delete()
            response.delete()
            answer.exists = False
        elif chance < 0.4:
            lost = dice.choice(list(answer.verdicts))
            response.judgments.filter(rubric__key=lost).delete()
            answer.verdicts[lost] = None
        elif chance < 0.5:
            VoidVerdict.objects.create(run=run, response=response, reason="invalidated", at=timezone.now())
            answer.void = True
    for sample in dice.sample(sorted({key[2] for key in world.answers}, key=lambda each: each.pk), 3):
        withdraw(sample)
        world.withdrawn.add(sample)


def withdraw(sample: ReleasedSample) -> None:
    Erratum.objects.create(
        sample=sample.version.sample, kind=Erratum.Kind.WITHDRAWN, reason="It is wrong.", at=timezone.now()
    )


def agrees(world: World, rows: list[Mapping[str, Any]]) -> int:
    """Compare rows of numbers with the world; returns how many rates were compared."""
    compared = 0
    rates = {rate.name: rate for rate in world.protocol.rates}
    for row in rows:
        for name, measured in row["rates"].items():
            place = (world.run.release.benchmark, row["endpoint"], row["dataset"], name)
            if rates[name].score:
                value, n = world.score(row["endpoint"], row["dataset"])
                assert measured["value"] == (None if value is None else pytest.approx(max(0, min(1, value)))), place
                assert measured["n"] == n, place
            else:
                hits, counted, excluded = world.truth(rates[name], row["endpoint"], row["dataset"])
                found = measured["numerator"], measured["denominator"], measured["unjudged"]
                assert found == (hits, counted, excluded), place
                assert measured["value"] == (hits / counted if counted else None), place
            compared += 1
    return compared


def as_row(line: Mapping[str, str]) -> Mapping[str, Any]:
    """A line of a CSV file as a row of a report."""
    numbers = {name: int(line[column]) for name, column in COLUMNS.items()}
    measured = {**numbers, "value": float(line["share"]) if line["share"] else None}
    return {"endpoint": line["endpoint"], "dataset": line["dataset"], "rates": {line["rate"]: measured}}


@pytest.mark.parametrize("benchmark", BENCHMARKS)
def test_every_number_is_what_the_world_says(
    benchmark: str, admin: Client, adela: User, api: Api, tmp_path: Path
) -> None:
    world = made_world(benchmark)
    fill(world, seed=1)
    run = world.run
    before = json.loads(formats.as_json(queries.report(run)))
    assert agrees(world, before["overall"]) > 0
    disturb(world, seed=2)
    with_withdrawn = World(run, world.protocol, world.datasets, world.points, world.answers, controls=world.controls)
    run = world.run = Run.objects.get(pk=run.pk)

    report = json.loads(formats.as_json(queries.report(run)))
    compared = agrees(world, report["overall"])
    assert compared >= 2 * len(world.datasets)
    assert agrees(with_withdrawn, report["errata"]["with_withdrawn"]) == compared
    assert report["errata"]["withdrawn"] == len(world.withdrawn)
    covered = {each["endpoint"]: each for each in report["coverage"]}
    assert {name for name, each in covered.items() if each["complete"]} == world.complete == {"whole"}
    standing = [key for key in world.answers if key[2] not in world.withdrawn]
    assert covered["half"]["criteria"] == sum(len(world.answers[key].verdicts) for key in standing if key[0] == "half")
    assert {rank["endpoint"] for rank in report["ranks"]} <= {"whole"}, "what is incomplete has no rank"

    downloaded = list(csv.DictReader(StringIO(formats.as_csv(queries.report(run), "overall"))))
    assert agrees(world, [as_row(line) for line in downloaded]) >= 2 * len(world.datasets)

    assert_lists_are_what_counts(run)

    of_api = api(adela).get(f"/api/v1/runs/{run.pk}/report/").json()
    assert agrees(world, of_api["overall"]) == compared
    document = formats.as_markdown(queries.report(run))
    assert f"half: {covered['half']['settled']} of {covered['half']['criteria']} criteria" in document
    assert "3 count nowhere." in document

    bundle.export_run(run, tmp_path / "out")
    assert verify_run.check(tmp_path / "out")["faults"] == []
    stated = json.loads((tmp_path / "out" / "report.json").read_text())
    assert agrees(world, stated["overall"]) == compared

    board = leaderboard(run.release)
    assert {entry.endpoint for entry in board.entries} == {"whole"}
    [entry] = board.entries
    for score in entry.scores:
        if score.dataset != "combined" and not board.rate.score:
            truth = world.truth(board.rate, "whole", score.dataset)
            assert (score.numerator, score.denominator, score.excluded) == truth
    releases_services.publish(run.release, actor=adela)
    public = admin.get(reverse("public-release-version", args=[run.release.name, 1])).content.decode()
    assert ">half<" not in public
    [lacking] = incomplete_results(run.release)  # on the data sets of the board
    coverage = {"settled": lacking.coverage.settled, "criteria": lacking.coverage.criteria}
    release_api, named = f"/api/v1/releases/{run.release.name}/1", {"run": run.pk, "model": "half"}
    published = api(adela).post(f"{release_api}/publish/incomplete/", named | coverage)
    assert published.status_code == 200, published.content
    [_whole, half] = api(adela).get(f"{release_api}/results/").json()["entries"]
    assert (half["endpoint"], half["rank"], half["coverage"]["complete"]) == ("half", None, False)
    for score in half["scores"]:
        if score["dataset"] != "combined" and not board.rate.score:
            truth = world.truth(board.rate, "half", score["dataset"])
            assert (score["numerator"], score["denominator"], score["excluded"]) == truth

    as_launched = run_frame(run, as_of=run.created_at)
    assert as_launched.withdrawn == 0, "as of then, nothing was known"


def assert_lists_are_what_counts(run: Run) -> None:
    """The judgments behind a number are the rows of the frame that count as the verdict."""
    stored = set(run.judgments.values_list("response", "rubric"))
    rows = run_frame(run).current.rows.select("response", "rubric", "verdict")
    for verdict in rows["verdict"].unique():
        of_frame = set(rows.filter(pl.col("verdict") == verdict).select("response", "rubric").iter_rows()) & stored
        assert set(queries.judgments(run, verdict=verdict).values_list("response", "rubric")) == of_frame, verdict


def test_the_judgments_behind_a_number_are_those_that_the_frame_counts() -> None:
    """In every state of a judgment, with void ones, withdrawn samples and rewordings."""
    world = made_world("mhb")
    fill(world, seed=3)
    disturb(world, seed=3)
    reworded = min(world.controls, key=lambda sample: sample.pk)
    Sample.objects.filter(pk=reworded.version.sample_id).update(arm=Sample.Arm.REWORDED)
    dice = Random(5)
    errors = ("", "BrokenReply", "NoMajority", "NoResponse", "NotJudged", "ServerError")
    for judgment in world.run.judgments.order_by("pk"):
        if dice.random() < 0.6:
            state = {"status": dice.choice(("queued", "failed")), "error": dice.choice(errors)}
            Judgment.objects.filter(pk=judgment.pk).update(verdict="", **state)
    for rules in ({}, {"refused": "not_met", "unparsed": "not_met", "no_majority": "met"}):
        run = Run.objects.get(pk=world.run.pk)
        outcomes = {**default_rules(world.protocol), **rules}
        rate = world.protocol.rates[0].name
        run.plan = {"metric": rate, "comparisons": [], "outcomes": outcomes, "minimum": 10}
        run.save()
        assert_lists_are_what_counts(run)


def test_a_comparison_pairs_only_what_both_runs_have() -> None:
    world = made_world("mhb")
    fill(world, seed=1)
    second = World(
        _run_of(world.run.release), world.protocol, world.datasets, world.points, {}, controls=world.controls
    )
    fill(second, seed=4)
    disturb(second, seed=2)
    world.withdrawn = second.withdrawn
    rate = world.protocol.rates[1]
    assert rate.unit == "sample"
    compared = compare_runs(Run.objects.get(pk=world.run.pk), Run.objects.get(pk=second.run.pk), OPERATOR)
    for row in (each for each in compared.rows if each.rate == rate.name and each.dataset != "combined"):
        shared, failed = 0, [0, 0]
        for key, answer in world.answers.items():
            other = second.answers[key[0], key[1], key[2]]
            if key[:2] != (row.first, row.dataset) or key[2] in world.withdrawn | world.controls:
                continue
            sides = [
                [word for word in each.verdicts.values() if word and each.exists and not each.void]
                for each in (answer, other)
            ]
            if all(sides):
                shared += 1
                for place, verdicts in enumerate(sides):
                    failed[place] += "not_met" in verdicts
        assert row.shared == shared
        assert (row.first_rate, row.second_rate) == (failed[0] / shared, failed[1] / shared)
    assert [(number, of_model.endpoint) for number, of_model in compared.incomplete] == [(second.run.pk, "half")]
    assert compared.differs == ()
    other_judge = model("another-judge")
    Run.objects.filter(pk=second.run.pk).update(judge=other_judge)
    compared = compare_runs(Run.objects.get(pk=world.run.pk), Run.objects.get(pk=second.run.pk), OPERATOR)
    assert [(part.name, part.usual) for part in compared.differs] == [("judges", "judge (judge)")]


def test_a_fragment_and_what_a_tool_marked_void_give_no_rank_and_replace_nothing() -> None:
    """One verdict of a study named like a model with a full run; rows twice; marks of a tool."""
    world = made_world("healthbench")
    fill(world, seed=1)
    release = world.run.release
    ranked = [(entry.endpoint, entry.run) for entry in leaderboard(release).entries]
    assert len(ranked) == 2
    [sample, other] = release.samples.order_by("position")[:2]

    def row(key: str, rubric: str, *, met: bool = True, void: str = "") -> VerdictRow:
        return VerdictRow(f"{key} {rubric}", key, rubric, "whole", met, "judged", "x", "", 0, "", "", void)

    for _twice in range(2):
        importing.import_results([row(sample.key, "R1")], release=release, study="fragment")
    fragment = Run.objects.get(study="fragment")
    assert [(entry.endpoint, entry.run) for entry in leaderboard(release).entries] == ranked
    report = queries.report(fragment)
    [score] = report.numbers.overall
    assert score.rates["healthbench_score"].value is None, "two of its criteria have no verdict"
    assert (score.rates["criteria_met"].denominator, score.rates["criteria_met"].excluded) == (1, 3 * SAMPLES - 1)
    assert report.numbers.rankings == ()
    assert report.numbers.samples == (1, SAMPLES), "the others have no verdict"

    marked = [row(other.key, key, void="invalidated") for key in ("R1", "R2", "R3")]
    importing.import_results(marked, release=release, study="fragment")
    numbers = queries.report(Run.objects.get(study="fragment")).numbers
    assert numbers.overall[0].rates["criteria_met"].denominator == 1
    assert {ending.kind: ending.criteria for ending in numbers.endings}["invalidated"] == 3
