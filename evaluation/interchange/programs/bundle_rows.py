"""The rows of a bundle as the tables of a frame, and what contradicts itself in them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from evaluation import panel
from evaluation.claims.measures import AGAIN
from evaluation.interchange.programs.files import document, lines
from evaluation.numbers.frame import SAMPLE, Frame, Tables, build_frame
from evaluation.numbers.late import pl
from evaluation.numbers.plans import Plan
from evaluation.numbers.policies import policy_frame
from evaluation.numbers.rates import rate_from_json
from evaluation.numbers.rules import CONTROL, HELD_OUT, NO_RESPONSE, NOT_JUDGED, REWORDED, RUBRIC
from evaluation.numbers.scoring import with_scores
from evaluation.protocol import CountingPreset, DataSet, FacetView, Protocol, ScoreRule

OPEN = "open"  # the outcome of a response that has not ended
DONE, FAILED = "done", "failed"
IMPORTED = "imported"

Answer = tuple[str, str, str, int]  # model, sample, variant, repeat
Criterion = tuple[str, str, str, int, str]  # and rubric
ANSWER = ("model", "sample", "variant", "repeat")
CRITERION = (*ANSWER, "rubric")


def answer_of(row: Mapping[str, Any]) -> Answer:
    """Which answer a row is about."""
    return row["model"], row["sample"], row["variant"], row["repeat"]


def criterion_of(row: Mapping[str, Any]) -> Criterion:
    """Which criterion of an answer a row is about."""
    return (*answer_of(row), row["rubric"])


def spelled(key: Iterable[object]) -> str:
    """A key for readers."""
    return " ".join(map(str, key))


def rows_twice(path: Path, key: Sequence[str], **only: str) -> Iterator[str]:
    """The rows of a file of JSON Lines that are there twice, by the columns of `key`, as faults.

    `only`: the columns and values of the rows that are compared.
    """
    seen = set()
    for row in lines(path):
        if only.items() <= row.items():
            place = tuple(str(row.get(column, "")) for column in key)
            if place in seen:
                yield f"{path.name}: {spelled(place)}: twice"
            seen.add(place)


def protocol_of(run: Mapping[str, Any]) -> Protocol:
    """What run.json says about counting. Nobody can be asked or judged by it."""
    about = run["protocol"]
    views = []
    for each in about["views"]:
        values = tuple(map(tuple, each["values"]))
        views.append(FacetView(each["name"], each["label"], rate=each["rate"], values=values))
    presets = {name: CountingPreset(name, outcomes=outcomes) for name, outcomes in about["presets"].items()}
    return Protocol(
        label=about["label"],
        datasets=tuple([DataSet(**dataset) for dataset in about["datasets"]]),
        ask=lambda _sample, _seed: (),
        rates=tuple(map(rate_from_json, about["rates"])),
        facets=tuple(views),
        pooled=about["pooled"],
        contrasts=tuple(map(tuple, about["contrasts"])),
        rivals=frozenset(about["rivals"]),
        verdicts=about["verdicts"],
        outcomes=about["outcomes"],
        presets=presets,
        wrong=frozenset(about["wrong"]),
        scores=tuple([ScoreRule(**rule) for rule in about["scores"]]),
    )


def plan_of(run: Mapping[str, Any]) -> Plan:
    """The analysis plan in run.json."""
    return Plan(**{**run["plan"], "comparisons": tuple(map(tuple, run["plan"]["comparisons"]))})


class Rows:
    """The rows of a bundle.

    `faults`: what contradicts them. `checked`: judgments of a panel that were decided again.
    `frame`: all verdicts. `votes`: those of a panel with a verdict. `fixed`: the frame of the fixed
    texts that a judge judged; `twins`: of controls and their rewordings; None without any. `again`:
    the second verdicts on criteria that were asked or judged again.
    """

    def __init__(self, folder: Path) -> None:
        self.run: dict[str, Any] = document(folder / "run.json")
        self.protocol, self.plan = protocol_of(self.run), plan_of(self.run)
        self.faults: list[str] = []
        self.checked = self.scored = 0
        self._folder = folder
        samples, self.rubrics, members = self._read_samples()
        self.samples = samples
        self.responses = self._read_responses()
        self.judgments = self._read_judgments()
        tables = Tables(
            samples=samples.filter(pl.col("arm") != REWORDED).drop("arm"),
            rubrics=self.rubrics.select("rubric", "sample", "key"),
            members=members,
            responses=self.responses.select(
                "response", "model", "variant", "repeat", pl.col("number").alias("sample"), "outcome", "failed"
            ),
            judgments=self.judgments.select(
                "response", pl.col("number").alias("rubric"), pl.col("verdict").alias("said"), "status", "error"
            ),
            voids=self._voids(),
            variants_of=self.run["protocol"]["variants_of"],
            repeats=self.run["settings"]["answers"],
            cluster_unit=self.run.get("cluster_unit", SAMPLE),
            pooled=self.protocol.pooled,
        )
        self.frame: Frame = self._build(tables)
        if self.protocol.scores:
            self.frame = with_scores(self.frame, self.protocol.scores, self._read_scores())
        twins = samples.filter(pl.col("arm").is_in([CONTROL, REWORDED]))
        self.twins: Frame | None = None
        if (twins["arm"] == REWORDED).any():
            self.twins = self._build(replace(tables, samples=twins.drop("arm")))
        if self.run.get("policies"):
            self.fixed = self._read_policies(tables)
        else:
            self.fixed = None
        if self.run["panel"]:
            self.votes = self._read_votes()
        else:
            self.votes = pl.DataFrame()
        self.again = self._read_again()

    def _build(self, tables: Tables) -> Frame:
        return build_frame(self.run["endpoints"], self.protocol.datasets, self.plan.outcomes, tables)

    def _read(self, name: str, **columns: Any) -> pl.DataFrame:
        """Columns of a file of JSON Lines; every column is read, of whatever others there are."""
        path = self._folder / name
        if not path.stat().st_size:
            return pl.DataFrame(schema=columns)
        return pl.read_ndjson(path, schema=columns).select(*columns)

    def _refuse(self, name: str, rows: pl.DataFrame, key: Iterable[str], reason: str, by: str = "") -> None:
        for row in rows.select(*key).iter_rows():
            if by:
                place = f"{spelled(row[:-1])} by {row[-1]}"
            else:
                place = spelled(row)
            self.faults.append(f"{name}: {place}: {reason}")

    def _read_samples(self) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
        """The samples, rubrics and facets of the release. Ids are places in the file."""
        counted_keys = self.protocol.rubrics_with_rates
        samples, rubrics, members = list[Any](), list[Any](), list[Any]()
        cluster_of: dict[str, int] = {}
        for number, sample in enumerate(lines(self._folder / "samples.jsonl")):
            cluster = cluster_of.setdefault(sample["cluster"], len(cluster_of))
            is_control, is_held_out = sample["arm"] == CONTROL, sample["split"] == HELD_OUT
            withdrawn = sample.get("withdrawn", False)
            samples.append(
                (number, sample["sample"], sample["task"], cluster, is_control, is_held_out, withdrawn, sample["arm"])
            )
            for rubric in sample["rubrics"]:
                of_key = {}
                if rubric["key"] in counted_keys:
                    of_key = {RUBRIC: [rubric["key"]]}
                for name, values in {**rubric["facets"], **of_key}.items():
                    members += [(name, value, len(rubrics)) for value in values]
                rubrics.append((len(rubrics), number, sample["sample"], rubric["key"]))
        columns = ("sample", "name", "task", "cluster", "is_control", "is_held_out", "withdrawn", "arm")
        types = (pl.Int64, pl.String, pl.String, pl.Int64, pl.Boolean, pl.Boolean, pl.Boolean, pl.String)
        of_rubric = {"rubric": pl.Int64, "sample": pl.Int64, "name": pl.String, "key": pl.String}
        of_member = {"facet": pl.String, "value": pl.String, "rubric": pl.Int64}
        return (
            pl.DataFrame(samples, schema=dict(zip(columns, types, strict=True)), orient="row"),
            pl.DataFrame(rubrics, schema=of_rubric, orient="row"),
            pl.DataFrame(members, schema=of_member, orient="row"),
        )

    def _read_responses(self) -> pl.DataFrame:
        name, text = "responses.jsonl", pl.String
        columns = dict.fromkeys(("model", "sample", "variant", "outcome", "status", "oddity"), text)
        rows = self._read(name, repeat=pl.Int64, **columns)
        known = self.samples.select(pl.col("name").alias("sample"), pl.col("sample").alias("number"))
        rows = rows.join(known, on="sample", how="left", maintain_order="left")
        is_known, is_first = pl.col("number").is_not_null(), pl.struct(ANSWER).is_first_distinct()
        self._refuse(name, rows.filter(~is_known), ["sample"], "not a sample of the release")
        rows = rows.filter(is_known)
        self._refuse(name, rows.filter(~is_first), ANSWER, "twice")
        return (
            rows.filter(is_first)
            .with_row_index("response")
            .with_columns(
                pl.col("response").cast(pl.Int64),
                pl.col("outcome").replace(OPEN, ""),
                (pl.col("status") == FAILED).alias("failed"),
            )
        )

    def _on_criteria(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Rows with the ids of their response and rubric (`number`), null where there is none."""
        rubrics = self.rubrics.select(pl.col("name").alias("sample"), pl.col("key").alias("rubric"), number="rubric")
        answers = self.responses.select(*ANSWER, "response")
        rows = rows.join(rubrics, on=["sample", "rubric"], how="left", maintain_order="left")
        return rows.join(answers, on=list(ANSWER), how="left", maintain_order="left")

    def _read_judgments(self) -> pl.DataFrame:
        name = "judgments.jsonl"
        columns = dict.fromkeys(("model", "sample", "variant", "rubric", "verdict", "status", "error"), pl.String)
        rows = self._on_criteria(self._read(name, repeat=pl.Int64, **columns))
        has_rubric, has_answer = pl.col("number").is_not_null(), pl.col("response").is_not_null()
        self._refuse(name, rows.filter(~has_rubric), CRITERION, "not a rubric of the release")
        self._refuse(name, rows.filter(has_rubric & ~has_answer), CRITERION, "no such response")
        rows = rows.filter(has_rubric & has_answer)
        is_first = pl.struct(CRITERION).is_first_distinct()
        self._refuse(name, rows.filter(~is_first), CRITERION, "twice")
        return rows.filter(is_first)

    def _read_policies(self, tables: Tables) -> Frame | None:
        """The frame of the fixed texts that a judge judged."""
        name, criterion = "policies.jsonl", ("policy", "sample", "variant", "rubric")
        rows = self._read(name, **dict.fromkeys((*criterion, "verdict", "error"), pl.String))
        rubrics = self.rubrics.select(pl.col("name").alias("sample"), pl.col("key").alias("rubric"), number="sample")
        rows = rows.join(rubrics, on=["sample", "rubric"], how="left", maintain_order="left")
        is_known = pl.col("number").is_not_null() & pl.col("policy").is_in(self.run["policies"])
        is_first = pl.struct(criterion).is_first_distinct()
        self._refuse(name, rows.filter(~is_known), criterion, "not a fixed text of the run, or a rubric of the release")
        self._refuse(name, rows.filter(is_known & ~is_first), criterion, "twice")
        verdicts = rows.filter(is_known & is_first).select(
            "policy", pl.col("number").alias("sample"), "variant", key="rubric", said="verdict", error="error"
        )
        if verdicts.is_empty():
            return None
        return policy_frame(self.run["policies"], self.protocol.datasets, self.plan.outcomes, tables, verdicts)

    def _read_again(self) -> pl.DataFrame:
        """What was asked or judged again; most runs have nothing."""
        name, key = "again.jsonl", (*CRITERION, "kind")
        if not (self._folder / name).exists():
            return pl.DataFrame()
        columns = dict.fromkeys(("kind", "judge", "model", "sample", "variant", "rubric", "verdict"), pl.String)
        rows = self._on_criteria(self._read(name, repeat=pl.Int64, **columns))
        is_known = pl.col("number").is_not_null() & pl.col("response").is_not_null()
        is_known = is_known & pl.col("kind").is_in(list(AGAIN)) & pl.col("judge").is_in(["", *self.judges])
        is_first = pl.struct(key).is_first_distinct()
        self._refuse(name, rows.filter(~is_known), key, "no such kind, judge, response or rubric")
        self._refuse(name, rows.filter(is_known & ~is_first), key, "twice")
        found = rows.filter(is_known & is_first)
        return found.select("kind", "judge", "response", pl.col("number").alias("rubric"), said="verdict")

    def _voids(self) -> pl.DataFrame:
        """The marks of tools that verdicts are void; older runs have none."""
        name, columns = "voids.jsonl", dict.fromkeys(("model", "sample", "variant", "rubric", "void"), pl.String)
        if not (self._folder / name).exists():
            return pl.DataFrame(schema={"response": pl.Int64, "rubric": pl.Int64, "void": pl.String})
        rows = self._on_criteria(self._read(name, repeat=pl.Int64, **columns))
        of_criterion = pl.col("rubric").is_not_null()
        is_known = pl.col("response").is_not_null() & (~of_criterion | pl.col("number").is_not_null())
        self._refuse(name, rows.filter(~is_known), CRITERION, "no such response or rubric")
        return rows.filter(is_known).select("response", pl.col("number").alias("rubric"), "void")

    def _read_scores(self) -> pl.DataFrame:
        name, names = "scores.jsonl", [rule.name for rule in self.protocol.scores]
        scores = pl.Struct(dict.fromkeys(names, pl.Float64))
        columns = dict.fromkeys(("model", "sample", "variant", "rubric"), pl.String)
        rows = self._on_criteria(self._read(name, repeat=pl.Int64, **columns, scores=scores))
        is_first = pl.struct(CRITERION).is_first_distinct()
        self._refuse(name, rows.filter(~is_first), CRITERION, "twice")
        rows = rows.filter(is_first)
        judged = self.judgments.select("response", "number")
        known = rows.join(judged, on=["response", "number"], how="semi", maintain_order="left")
        others = rows.join(judged, on=["response", "number"], how="anti", maintain_order="left")
        self._refuse(name, others, CRITERION, "no such judgment")
        numbers = known.select("response", pl.col("number").alias("rubric"), "scores").unnest("scores")
        for score in names:
            self.scored += len(numbers) - numbers[score].null_count()
        return numbers

    def _read_votes(self) -> pl.DataFrame:
        """Read the votes of a panel, and decide every judgment again."""
        name, by_judge = "votes.jsonl", (*CRITERION, "judge")
        columns = dict.fromkeys(
            ("model", "sample", "variant", "rubric", "judge", "status", "verdict", "error"), pl.String
        )
        rows = self._on_criteria(self._read(name, repeat=pl.Int64, vote=pl.Int64, warm=pl.Boolean, **columns))
        rows = rows.join(
            self.judgments.select("response", "number", is_judged=True), on=["response", "number"], how="left",
            maintain_order="left",
        )  # fmt: skip
        is_known = pl.col("is_judged").is_not_null() & pl.col("judge").is_in(self.judges)
        self._refuse(name, rows.filter(~is_known), by_judge, "no such judgment or judge", by="judge")
        rows = rows.filter(is_known)
        is_first = pl.struct(*by_judge, "vote").is_first_distinct()
        self._refuse(name, rows.filter(~is_first), by_judge, "twice", by="judge")
        self.cast = rows.filter(is_first)
        by_criterion: dict[Criterion, dict[str, list[str]]] = defaultdict(dict)
        for *key, judge, verdict in self.cast.select(*by_judge, "verdict").iter_rows():
            by_criterion[tuple(key)].setdefault(judge, []).append(verdict)
        for row in self.judgments.select(*CRITERION, "verdict", "status", "error").iter_rows():
            self._decide(row[:5], by_criterion.get(row[:5], {}), *row[5:])
        votes = self.cast.filter(pl.col("verdict") != "")
        names = {"vote": "number", "verdict": "voted", "number": "rubric"}
        return votes.select("judge", "vote", "verdict", "response", "number", "warm").rename(names)

    def _decide(self, key: Criterion, by_judge: Mapping[str, list[str]], verdict: str, status: str, error: str) -> None:
        rule = self.run["panel"]
        if status not in (DONE, FAILED) or (not by_judge and error in (NO_RESPONSE, NOT_JUDGED)):
            return
        cast = [by_judge[judge] for judge in self.judges if judge in by_judge]
        initial = panel.INITIAL_JUDGES
        is_settled = rule == panel.Rule.ESCALATION and len(cast) >= initial and not panel.is_disputed(cast)
        if is_settled:
            expected = initial
        else:
            expected = len(self.judges)
        left_out = set(self.run.get("judges_left_out", ()))
        if self.run["origin"] == IMPORTED:  # elsewhere, a judge may have judged only a part
            expected = len(cast) or 1
        elif not is_settled:  # those that were left out may have voted before
            expected -= len(left_out - by_judge.keys())
        numbers_of_votes = {len(by_judge[judge]) for judge in by_judge.keys() - left_out}
        is_whole = numbers_of_votes <= {self.run["settings"]["judgments"]}
        if len(cast) != expected or not is_whole:
            self.faults.append(f"votes.jsonl: {spelled(key)}: votes are missing, or more than were asked for")
            return
        self.checked += 1
        decided = panel.decide(rule, cast)
        no_majority = not decided and any(map(any, cast))  # where every vote failed, the error is that of a vote
        if decided != verdict or no_majority != (error == panel.NO_MAJORITY):
            decisions = f"the panel decides {decided or 'nothing'}, not {verdict or error or 'nothing'}"
            self.faults.append(f"votes.jsonl: {spelled(key)}: {decisions}")

    @cached_property
    def oddities(self) -> Counter[tuple[str, str]]:
        """(model, unknown ending, or '' for text like reasoning) -> responses.

        Of no withdrawn sample.
        """
        odd = self._standing(self.responses).filter(pl.col("oddity").is_not_null())
        return Counter(odd.select("model", "oddity").iter_rows())

    @cached_property
    def judged(self) -> Counter[str]:
        """Verdicts asked of a judge, or votes of a panel, by error; '': those that were read.

        Of no withdrawn sample.
        """
        rows = self.judgments
        if self.run["panel"]:
            rows = self.cast
        asked = pl.col("status").is_in([DONE, FAILED]) & ~pl.col("error").is_in([NO_RESPONSE, NOT_JUDGED])
        is_launched = self.run["judge"] and self.run["origin"] != IMPORTED
        if is_launched:
            return Counter(self._standing(rows).filter(asked)["error"].to_list())
        return Counter()

    def _standing(self, rows: pl.DataFrame) -> pl.DataFrame:
        """The rows on samples that are not withdrawn. `sample`: the name of theirs."""
        withdrawn = self.samples.filter("withdrawn")["name"]
        return rows.filter(~pl.col("sample").is_in(withdrawn.implode()))

    @property
    def judges(self) -> list[str]:
        """The judges of the run, in the order of the panel."""
        if self.run["judge"]:
            return [self.run["judge"], *self.run["further_judges"]]
        return []
