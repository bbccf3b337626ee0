"""The rows of a bundle as the values that MHB's arithmetic counts."""

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from evaluation import panel
from evaluation.interchange.programs.files import document, lines
from evaluation.protocol import CountingPreset, DataSet, FacetView, Protocol, ScoreRule
from evaluation.reports.numbers.scoring import with_scores
from evaluation.verdicts.plans import Plan
from evaluation.verdicts.rates import rate_from_json
from evaluation.verdicts.selection import CONTROL, HELD_OUT, NO_RESPONSE, NOT_JUDGED, RUBRIC
from evaluation.verdicts.table import (
    DataSetKey,
    JudgmentGroup,
    ResponseGroup,
    RubricColumns,
    SampleColumns,
    ScoreGroup,
    VerdictTable,
    VoteGroup,
    build_table,
)

OPEN = "open"  # the outcome of a response that has not ended
DONE, FAILED = "done", "failed"
IMPORTED = "imported"

Answer = tuple[str, str, str, int]  # model, sample, variant, repeat
Criterion = tuple[str, str, str, int, str]  # and rubric
Key = TypeVar("Key", bound=Hashable)


Groups = defaultdict[Key, list[tuple[int, ...]]]  # rows of whole numbers by what they have in common


def _columns(groups: Groups[Key]) -> Iterable[tuple[Key, Any]]:
    return [(key, np.array(rows, dtype=np.int64).T) for key, rows in groups.items()]


def answer_of(row: Mapping[str, Any]) -> Answer:
    """Which answer a row is about."""
    return row["model"], row["sample"], row["variant"], row["repeat"]


def criterion_of(row: Mapping[str, Any]) -> Criterion:
    """Which criterion of an answer a row is about."""
    return (*answer_of(row), row["rubric"])


def spelled(key: Iterable[object]) -> str:
    """A key for readers."""
    return " ".join(map(str, key))


def protocol_of(run: Mapping[str, Any]) -> Protocol:
    """What run.json says about counting. Nobody can be asked or judged by it."""
    about = run["protocol"]
    return Protocol(
        label=about["label"],
        datasets=tuple(DataSet(**each) for each in about["datasets"]),
        ask=lambda _sample, _seed: (),
        rates=tuple(map(rate_from_json, about["rates"])),
        facets=tuple(
            FacetView(each["name"], each["label"], rate=each["rate"], values=tuple(map(tuple, each["values"])))
            for each in about["views"]
        ),
        pooled=about["pooled"],
        contrasts=tuple(map(tuple, about["contrasts"])),
        rivals=frozenset(about["rivals"]),
        verdicts=about["verdicts"],
        outcomes=about["outcomes"],
        presets={name: CountingPreset(name, outcomes=outcomes) for name, outcomes in about["presets"].items()},
        wrong=frozenset(about["wrong"]),
        scores=tuple(ScoreRule(**each) for each in about["scores"]),
    )


def plan_of(run: Mapping[str, Any]) -> Plan:
    """The analysis plan in run.json."""
    return Plan(**{**run["plan"], "comparisons": tuple(map(tuple, run["plan"]["comparisons"]))})


class Rows:
    """The rows of a bundle.

    `faults`: what contradicts them. `checked`: judgments of a panel that were decided again.
    `table`: all verdicts. `votes`: those of a panel with a verdict; `cast` has all of them.
    """

    def __init__(self, folder: Path) -> None:
        self.run: dict[str, Any] = document(folder / "run.json")
        self.protocol, self.plan = protocol_of(self.run), plan_of(self.run)
        self.faults: list[str] = []
        self.checked = self.scored = 0
        self.oddities: Counter[tuple[str, str]] = Counter()
        self.judged: Counter[str] = Counter()  # verdicts, or votes of a panel, by error; '': those that were read
        self.answers: dict[Answer, int] = {}
        self.rubrics: dict[tuple[str, str], int] = {}
        self.judgments: dict[Criterion, tuple[str, str, str]] = {}
        # judgment -> judge -> number of the vote -> status and verdict
        self.cast: dict[Criterion, dict[str, dict[int, tuple[str, str]]]] = defaultdict(lambda: defaultdict(dict))
        samples, rubrics = self._read_samples(folder)
        responses, judgments = self._read_responses(folder), self._read_judgments(folder)
        keys = [DataSetKey(data.name, data.task, data.variant) for data in self.protocol.datasets]
        outcomes = self.plan.outcomes
        self.table: VerdictTable = build_table(
            self.run["endpoints"], keys, outcomes, samples, rubrics, responses, judgments
        )
        if self.protocol.scores:
            self.table = with_scores(self.table, self.protocol.scores, self._read_scores(folder))
        self.votes = self._read_votes(folder) if self.run["panel"] else []

    def _read_samples(self, folder: Path) -> tuple[SampleColumns, RubricColumns]:
        counted_keys = {rate.only.value for rate in self.protocol.rates if rate.only and rate.only.facet == RUBRIC}
        samples = list(lines(folder / "samples.jsonl"))
        self.samples = {sample["sample"]: number for number, sample in enumerate(samples)}
        members: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
        for sample in samples:
            for rubric in sample["rubrics"]:
                number = self.rubrics[sample["sample"], rubric["key"]] = len(self.rubrics)
                of_key = {RUBRIC: [rubric["key"]]} if rubric["key"] in counted_keys else {}
                for name, values in {**rubric["facets"], **of_key}.items():
                    for value in values:
                        members[name][value].append(number)
        ids = {name: {value: np.array(at) for value, at in values.items()} for name, values in members.items()}
        cluster_of: dict[str, int] = {}
        columns = SampleColumns(
            np.arange(len(samples)),
            [sample["task"] for sample in samples],
            np.array([cluster_of.setdefault(sample["cluster"], len(cluster_of)) for sample in samples]),
            np.array([sample["arm"] == CONTROL for sample in samples], dtype=np.bool_),
            np.array([sample["split"] == HELD_OUT for sample in samples], dtype=np.bool_),
        )
        return columns, RubricColumns(np.arange(len(self.rubrics)), ids)

    def _read_responses(self, folder: Path) -> list[ResponseGroup]:
        groups: Groups[tuple[str, str, str, bool]] = defaultdict(list)
        for row in lines(folder / "responses.jsonl"):
            answer = answer_of(row)
            if row["sample"] not in self.samples:
                self.faults.append(f"responses.jsonl: {row['sample']}: not a sample of the release")
                continue
            if answer in self.answers:
                self.faults.append(f"responses.jsonl: {spelled(answer)}: twice")
                continue
            number = self.answers[answer] = len(self.answers)
            if row["outcome"] != OPEN:
                key = row["model"], row["variant"], row["outcome"], row["status"] == FAILED
                groups[key].append((number, self.samples[row["sample"]]))
            if row["oddity"] is not None:
                self.oddities[row["model"], row["oddity"]] += 1
        return [ResponseGroup(*key, *columns) for key, columns in _columns(groups)]

    def _read_judgments(self, folder: Path) -> list[JudgmentGroup]:
        groups: Groups[tuple[str, str, str]] = defaultdict(list)
        for row in lines(folder / "judgments.jsonl"):
            key, rubric = criterion_of(row), self.rubrics.get((row["sample"], row["rubric"]))
            name = f"judgments.jsonl: {spelled(key)}"
            if rubric is None or key[:4] not in self.answers:
                missing = "not a rubric of the release" if rubric is None else "no such response"
                self.faults.append(f"{name}: {missing}")
                continue
            if key in self.judgments:
                self.faults.append(f"{name}: twice")
                continue
            state = self.judgments[key] = row["verdict"], row["status"], row["error"]
            if not self.run["panel"]:
                self._count_judged(row)
            groups[state].append((self.answers[key[:4]], rubric))
        return [JudgmentGroup(*state, *columns) for state, columns in _columns(groups)]

    def _read_scores(self, folder: Path) -> list[ScoreGroup]:
        groups: dict[tuple[str, ...], list[tuple[int, int, list[float]]]] = defaultdict(list)
        for row in lines(folder / "scores.jsonl"):
            key = criterion_of(row)
            if key not in self.judgments:
                self.faults.append(f"scores.jsonl: {spelled(key)}: no such judgment")
                continue
            place = self.answers[key[:4]], self.rubrics[row["sample"], row["rubric"]]
            groups[tuple(row["scores"])].append((*place, list(row["scores"].values())))
            self.scored += len(row["scores"])
        return [
            ScoreGroup(names, np.array(responses), np.array(rubrics), np.array(numbers))
            for names, rows in groups.items()
            for responses, rubrics, numbers in [zip(*rows, strict=True)]
        ]

    def _read_votes(self, folder: Path) -> list[VoteGroup]:
        """Read the votes of a panel, and decide every judgment again."""
        judges = self.judges
        groups: Groups[tuple[str, int, str]] = defaultdict(list)
        for row in lines(folder / "votes.jsonl"):
            key, name = criterion_of(row), f"votes.jsonl: {spelled(criterion_of(row))} by {row['judge']}"
            if key not in self.judgments or row["judge"] not in judges:
                self.faults.append(f"{name}: no such judgment or judge")
                continue
            of_judge = self.cast[key][row["judge"]]
            if row["vote"] in of_judge:
                self.faults.append(f"{name}: twice")
                continue
            of_judge[row["vote"]] = row["status"], row["verdict"]
            self._count_judged(row)
            if row["verdict"]:
                place = self.answers[key[:4]], self.rubrics[row["sample"], row["rubric"]]
                groups[row["judge"], row["vote"], row["verdict"]].append(place)
        for key, state in self.judgments.items():
            self._decide(key, *state)
        return [VoteGroup(*key, *columns) for key, columns in _columns(groups)]

    def _count_judged(self, row: Mapping[str, Any]) -> None:
        is_launched = self.run["judge"] and self.run["origin"] != IMPORTED
        if is_launched and row["status"] in (DONE, FAILED) and row["error"] not in (NO_RESPONSE, NOT_JUDGED):
            self.judged[row["error"]] += 1

    def _decide(self, key: Criterion, verdict: str, status: str, error: str) -> None:
        by_judge, rule = self.cast.get(key, {}), self.run["panel"]
        if status not in (DONE, FAILED) or (not by_judge and error in (NO_RESPONSE, NOT_JUDGED)):
            return
        cast = [[vote for _status, vote in by_judge[judge].values()] for judge in self.judges if judge in by_judge]
        initial = panel.INITIAL_JUDGES
        is_settled = rule == panel.Rule.ESCALATION and len(cast) >= initial and not panel.is_disputed(cast)
        expected = initial if is_settled else len(self.judges)
        left_out, each = self.run.get("judges_left_out", ()), self.run["settings"]["judgments"]
        if self.run["origin"] == IMPORTED:  # elsewhere, a judge may have judged only a part
            expected = len(cast) or 1
        elif not is_settled:  # those that were left out may have voted before
            expected -= sum(judge not in by_judge for judge in left_out)
        whole = [len(votes) == each for judge, votes in by_judge.items() if judge not in left_out]
        if len(cast) != expected or not all(whole):
            self.faults.append(f"votes.jsonl: {spelled(key)}: votes are missing, or more than were asked for")
            return
        self.checked += 1
        decided = panel.decide(rule, cast)
        no_majority = not decided and any(map(any, cast))  # where every vote failed, the error is that of a vote
        if decided != verdict or no_majority != (error == panel.NO_MAJORITY):
            decisions = f"the panel decides {decided or 'nothing'}, not {verdict or error or 'nothing'}"
            self.faults.append(f"votes.jsonl: {spelled(key)}: {decisions}")

    @property
    def judges(self) -> list[str]:
        """The judges of the run, in the order of the panel."""
        return [self.run["judge"], *self.run["further_judges"]] if self.run["judge"] else []
