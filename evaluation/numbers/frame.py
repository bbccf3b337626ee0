"""The frame of a run: a row for every criterion that could have been judged, judged or not.

How to use it. `evaluation.runs.verdicts.run_frame(run)` reads the frame of a run as of a moment;
`build_frame` makes one of tables from elsewhere. `Frame.rows` is a polars DataFrame with a row for
each model, data set, repeat and criterion that the frozen release, the variants and the repeats of
the run could have had judged:

| column | |
|---|---|
| model, dataset | their names, as Enum in the order of the run |
| repeat | the number of the answer, from 0 |
| sample, rubric | ids in the release |
| unit | a sample in one data set: its place in `Frame.units` |
| cluster | what shares a document, an image, a record: the same number; see `Frame.cluster_unit` |
| is_control, is_held_out | the arm and the part of the sample |
| response | its id; null: there is no answer |
| outcome | how the response ended; '' : it has not |
| said | the verdict that was given, whatever it counts as; '' : none |
| verdict | the verdict that it counts as by the rules of the plan; 'unjudged': none |
| why | one of `rules.KINDS`: why it has that verdict, or none |
| settled | whether nothing of it is missing (`rules.Counted`) |
| withdrawn | whether its sample is withdrawn as of the moment of the frame |
| counts | whether it has a verdict that counts: of no withdrawn sample, and not void |

Every number is a group-by or a join on these rows. A denominator is of the rows with `~withdrawn`
(`Frame.current`); of them, those without `counts` are what a rate calls excluded. Facets are a
table of their own (`Frame.members`), as a rubric may have several values, or none:

    frame.current.by_value("trap").group_by("value", "model").agg(pl.col("counts").sum(), pl.len())

`totals.unit_totals` gives the sums of a rate by model and unit, on which intervals, comparisons and
changes are computed; `coverage` says what is missing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from evaluation.numbers.late import pl
from evaluation.numbers.rates import Rate
from evaluation.numbers.rules import (
    CONTROL,
    JUDGE_FAILURES,
    JUDGED,
    KINDS,
    MISSING,
    OUTCOMES,
    UNJUDGED,
    Counted,
    CriterionState,
    can_pool,
    counted,
)

if TYPE_CHECKING:
    from evaluation.protocol import DataSet

Ints = NDArray[np.signedinteger[Any]]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

STATE = ("outcome", "said", "status", "error", "void")  # of `CriterionState`, and its columns
ENDINGS = ("", *OUTCOMES)  # of responses; '': it has not ended, or there is none
SAMPLE, RECORD = "sample", "record"  # units of clusters, beside those that a source format names


@dataclass(frozen=True)
class Tables:
    """What a frame is built of, each table as a DataFrame.

    Attributes:
        samples: sample, task, cluster, is_control, is_held_out, withdrawn; one row a sample.
        rubrics: rubric, sample, and key.
        members: facet, value, rubric.
        responses: response, model, variant, repeat, sample, failed, outcome ('' until it ends).
        judgments: response, rubric, said, status, error.
        voids: response, rubric (null: all of the response), void (one of `rules.VOIDS`).
        variants_of: key of a rubric -> the variants whose answers are judged on it; others: all.
        repeats: answers to each question.
        cluster_unit: what the clusters are: SAMPLE, RECORD, or a unit that a source format names.
        pooled: whether the benchmark pools data sets.
    """

    samples: pl.DataFrame
    rubrics: pl.DataFrame
    members: pl.DataFrame
    responses: pl.DataFrame
    judgments: pl.DataFrame
    voids: pl.DataFrame
    variants_of: Mapping[str, Sequence[str]]
    repeats: int
    cluster_unit: str
    pooled: bool


@dataclass(frozen=True)
class Frame:
    """The criteria of a run; the module says how to use them.

    Attributes:
        rows: one for each criterion; see the module.
        units: unit, sample, dataset, cluster, is_control, is_held_out, withdrawn; in order of unit.
        members: facet, value, rubric.
        responses: model, dataset, outcome, failed, and how many (`n`), without withdrawn samples.
        verdicts: the words of `verdict`, UNJUDGED first.
        pooled: whether numbers are also of all data sets together, as one named COMBINED.
    """

    models: tuple[str, ...]
    datasets: tuple[str, ...]
    verdicts: tuple[str, ...]
    rows: pl.DataFrame
    units: pl.DataFrame
    members: pl.DataFrame
    responses: pl.DataFrame
    cluster_unit: str
    pooled: bool

    @cached_property
    def current(self) -> Frame:
        """Without the samples that were withdrawn."""
        if not self.units["withdrawn"].any():
            return self
        return replace(self, rows=self.rows.filter(~pl.col("withdrawn")), units=self.units.filter(~pl.col("withdrawn")))

    @cached_property
    def held_out(self) -> Frame:
        """The samples that are not published, alone."""
        return replace(self, rows=self.rows.filter("is_held_out"), units=self.units.filter("is_held_out"))

    @property
    def withdrawn(self) -> int:
        """How many samples were withdrawn."""
        return int(self.units.filter("withdrawn")["sample"].n_unique())

    def only(self, condition: pl.Expr) -> Frame:
        """The rows that meet a condition; all units are kept."""
        return replace(self, rows=self.rows.filter(condition))

    def array(self, column: str) -> NDArray[Any]:
        """A column of the rows as an array; names as their places in `models`, `datasets`, ..."""
        return as_array(self.rows[column])

    def facet(self, name: str) -> pl.DataFrame:
        """The values of a facet (`value`), by rubric."""
        if name in self._by_facet:
            return self._by_facet[name]
        return self.members.clear().select("rubric", "value")

    @cached_property
    def _by_facet(self) -> Mapping[str, pl.DataFrame]:
        by_facet = {}
        for (name,), of_facet in self.members.partition_by("facet", as_dict=True).items():
            by_facet[name] = of_facet.select("rubric", "value")
        return by_facet

    def by_value(self, facet: str = "") -> pl.DataFrame:
        """The rows without control samples, each once for every value (`value`) of a facet that its
        rubric has; without a facet, of the value ''.
        """
        of_traps = self.rows.filter(~pl.col("is_control"))
        columns = ("rubric", "model", "dataset", "unit", "cluster", "verdict", "^score/.*$")
        if facet:
            return of_traps.select(*columns).join(self.facet(facet), on="rubric")
        return of_traps.select(*columns, pl.lit("").alias("value"))

    def rubrics_by_value(self, name: str) -> Mapping[str, Ints]:
        """Value of a facet -> the ids of the rubrics that have it."""
        rubrics = {}
        for (value,), of_value in self.facet(name).group_by("value"):
            rubrics[value] = as_array(of_value["rubric"])
        return rubrics

    @cached_property
    def facets(self) -> Mapping[str, frozenset[str]]:
        """Facet -> its values, of all rubrics of the release."""
        values = {}
        for name, of_facet in self._by_facet.items():
            values[name] = frozenset(of_facet["value"].unique())
        return values

    def in_arm(self, rate: Rate) -> pl.Expr:
        """Whether a row is of the arm that a rate counts."""
        return pl.col("is_control") == (rate.arm == CONTROL)

    def on_criteria(self, rate: Rate) -> pl.Expr:
        """Whether a row is on a criterion that a rate is about, of either arm."""
        if rate.only is None:
            return pl.lit(True)
        of_facet = self.facet(rate.only.facet)
        return pl.col("rubric").is_in(of_facet.filter(pl.col("value") == rate.only.value)["rubric"].implode())

    def rows_about(self, rate: Rate, rows: pl.DataFrame) -> pl.DataFrame:
        """Those of some rows that are on a criterion that a rate is about."""
        if rate.only is None:
            return rows  # a filter that all pass would copy them
        return rows.filter(self.on_criteria(rate))

    def in_scope(self, rate: Rate) -> pl.Expr:
        """Whether a row is in a rate: of its arm, on its criteria, with a verdict in its scope."""
        return self.in_arm(rate) & self.on_criteria(rate) & self.has(rate.scope_verdicts)

    def has(self, verdicts: frozenset[str]) -> pl.Expr:
        """Whether a row counts as one of these verdicts."""
        known = [verdict for verdict in self.verdicts if verdict in verdicts]
        return pl.col("verdict").is_in(known)

    def places(self, condition: pl.Expr) -> Ints:
        """The places of the rows that meet a condition."""
        return np.flatnonzero(self.rows.select(condition.alias("is_met"))["is_met"].to_numpy())

    def on(self, marks: pl.DataFrame) -> pl.DataFrame:
        """Each mark (response, rubric, ...) with the row it is on, and its place (`row`)."""
        return self.rows.with_row_index("row").join(marks, on=["response", "rubric"], maintain_order="right")


def as_array(column: pl.Series) -> NDArray[Any]:
    """A column as an array; of an Enum, the places of its words."""
    if column.dtype == pl.Enum:
        return column.to_physical().to_numpy()
    return column.to_numpy()


def words_of(column: pl.Series) -> list[str]:
    """The words of an Enum, in order."""
    assert isinstance(column.dtype, pl.Enum)  # noqa: S101
    return column.dtype.categories.to_list()


def counts_against(frame: Frame, rate: Rate, failing: frozenset[str]) -> dict[str, tuple[int, int]]:
    """Model -> (verdicts against it, verdicts), of those in a rate."""
    against = frame.has(failing).sum().alias("against")
    by_model = frame.rows.filter(frame.in_scope(rate)).group_by("model").agg(against, pl.len().alias("n"))
    counts = dict.fromkeys(frame.models, (0, 0))
    for model, bad, n in by_model.iter_rows():
        counts[model] = (bad, n)
    return counts


def votes_in_scope(frame: Frame, rate: Rate, failing: frozenset[str], votes: pl.DataFrame) -> pl.DataFrame:
    """The votes of a panel that a rate would count if each were the verdict: `judge`, `number`,
    `failed`, and the columns of the row.

    Not those on responses that count by their outcome alone. `votes`: judge, number, voted,
    response, rubric.
    """
    by_judge = pl.col("why").is_in([JUDGED, *JUDGE_FAILURES])
    within = pl.col("voted").is_in(list(rate.scope_verdicts))
    chosen = frame.in_arm(rate) & frame.on_criteria(rate) & by_judge & within
    return frame.on(votes).filter(chosen).with_columns(pl.col("voted").is_in(list(failing)).alias("failed"))


def build_frame(models: Sequence[str], datasets: Sequence[DataSet], rules: Mapping[str, str], tables: Tables) -> Frame:
    """The frame of a run. `rules`: how each outcome and failure of the judge counts."""
    units = _units(datasets, tables.samples)
    rows = _answers(models, units, tables).join(_criteria(units, tables), on="unit", maintain_order="left")
    said = tables.judgments.with_columns(pl.col("said", "status", "error").cast(pl.Categorical))
    rows = rows.join(said, on=["response", "rubric"], how="left", maintain_order="left")
    if tables.variants_of:
        rows = rows.filter(pl.col("is_asked") | pl.col("status").is_not_null())
    rows = _with_voids(rows.drop("is_asked"), tables.voids)
    decided = _decided(rows.select(STATE).unique(), rules)
    rows = rows.join(decided, on=STATE, how="left", maintain_order="left", nulls_equal=True)
    of_units = units.select("sample", "dataset", "cluster", "is_control", "is_held_out", "withdrawn")
    rows = rows.drop("status", "error", "void").hstack(of_units[rows["unit"]])  # the number of a unit is its place
    rows = rows.with_columns(
        pl.col("said").fill_null("").cast(pl.Enum(_words(decided["said"], first=""))),
        pl.col("outcome").fill_null(""),
        ((pl.col("verdict") != UNJUDGED) & ~pl.col("withdrawn")).alias("counts"),
    )
    current = units.filter(~pl.col("withdrawn")).select("sample", "variant", "dataset")
    responses = tables.responses.join(current, on=["sample", "variant"])
    return Frame(
        models=tuple(models),
        datasets=tuple([data.name for data in datasets]),
        verdicts=tuple(words_of(rows["verdict"])),
        rows=rows,
        units=units.drop("task", "variant").filter(pl.col("unit").is_in(rows["unit"].unique().implode())),
        members=tables.members.with_columns(pl.col("facet", "value").cast(pl.Categorical)),
        responses=responses.group_by("model", "dataset", "outcome", "failed").agg(pl.len().alias("n")),
        cluster_unit=tables.cluster_unit,
        pooled=tables.pooled and can_pool([data.task for data in datasets]),
    )


def _units(datasets: Sequence[DataSet], samples: pl.DataFrame) -> pl.DataFrame:
    """The samples in each data set, numbered in the order of sample and data set."""
    names = pl.Enum([data.name for data in datasets])
    rows = [(data.name, data.task, data.variant) for data in datasets]
    asked = pl.DataFrame(rows, schema={"dataset": names, "task": pl.String, "variant": pl.String}, orient="row")
    units = samples.join(asked, on="task").sort("sample", "dataset")
    return units.with_row_index("unit")


def _criteria(units: pl.DataFrame, tables: Tables) -> pl.DataFrame:
    """The criteria of each unit: unit, rubric; `is_asked`: whether its variant is judged on it."""
    criteria = units.select("unit", "sample", "variant").join(tables.rubrics, on="sample")
    is_asked = pl.lit(True)
    for key, variants in tables.variants_of.items():
        is_asked &= (pl.col("key") != key) | pl.col("variant").is_in(list(variants))
    return criteria.select("unit", "rubric", is_asked.alias("is_asked"))


def _answers(models: Sequence[str], units: pl.DataFrame, tables: Tables) -> pl.DataFrame:
    """Each answer that could be there: model, unit, repeat, with the response if there is one.

    A further answer to a question, beyond `Tables.repeats`, is expected of all questions if it is
    there for one in ten; so that a single row of a study cannot ask for a million others.
    """
    names = pl.Enum(models)
    outcome = pl.col("outcome").fill_null("").cast(pl.Enum(ENDINGS))  # null will be: no response
    found = tables.responses.with_columns(pl.col("model").cast(names), outcome)
    found = found.join(units.select("unit", "sample", "variant"), on=["sample", "variant"])
    repeats = pl.DataFrame({"repeat": range(tables.repeats)}, schema={"repeat": pl.Int64})
    asked = pl.DataFrame({"model": models}, schema={"model": names}).join(repeats, how="cross")
    further = found.group_by("model", "repeat").len().filter(pl.col("len") * 10 >= units.height)
    asked = pl.concat([asked, further.select("model", "repeat")]).unique()
    possible = asked.join(units.select("unit"), how="cross")
    keys = ["model", "repeat", "unit"]
    if further.height < found.select("model", "repeat").n_unique():
        possible = pl.concat([possible, found.select(keys)]).unique()
    found = found.select(*keys, "response", "outcome")
    return possible.join(found, on=keys, how="left").sort("unit", "model", "repeat")


def _with_voids(rows: pl.DataFrame, voids: pl.DataFrame) -> pl.DataFrame:
    """The rows with `void`: why the verdict is void, null if it is not."""
    if voids.is_empty():
        return rows.with_columns(pl.lit(None, dtype=pl.String).alias("void"))
    of_answers = voids.filter(pl.col("rubric").is_null()).select("response", "void").unique("response")
    of_criteria = voids.filter(pl.col("rubric").is_not_null()).unique(["response", "rubric"])
    rows = rows.join(of_answers, on="response", how="left", maintain_order="left")
    rows = rows.join(of_criteria.rename({"void": "own"}), on=["response", "rubric"], how="left", maintain_order="left")
    return rows.with_columns(pl.coalesce("own", "void").alias("void")).drop("own")


def _decided(states: pl.DataFrame, rules: Mapping[str, str]) -> pl.DataFrame:
    """The states of criteria with what each counts as: there are few, so each is decided once."""
    decided = []
    for outcome, *words in states.iter_rows():
        if outcome is None:  # there is no response
            decided.append(Counted(UNJUDGED, MISSING, False))
        else:
            decided.append(counted(rules, CriterionState(outcome, *[word or "" for word in words])))
    verdicts = pl.Series([each.verdict for each in decided], dtype=pl.String)
    return states.with_columns(
        verdicts.cast(pl.Enum(_words(verdicts, first=UNJUDGED))).alias("verdict"),
        pl.Series("why", [each.why for each in decided], pl.Enum(KINDS)),
        pl.Series("settled", [each.settled for each in decided], pl.Boolean),
    )


def _words(column: pl.Series, first: str) -> list[str]:
    """The different words of a column in order, behind the `first`."""
    return [first, *sorted(set(column.drop_nulls().cast(pl.String)) - {first})]
