"""Reads the frame of a run's verdicts from the database."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from io import BytesIO
from typing import Any

from django.db import connection
from django.db.models import F, QuerySet

from evaluation import registry
from evaluation.models import Judgment, PolicyAnswer, Response, ResponseScore, Run, VoidVerdict, Vote
from evaluation.numbers import policies
from evaluation.numbers.frame import RECORD, SAMPLE, Frame, Tables, build_frame
from evaluation.numbers.late import pl
from evaluation.numbers.rules import CONTROL, HELD_OUT, POLARITY, REWORDED, RUBRIC, TRAP
from evaluation.protocol import DataSet, Protocol
from evaluation.runs.plan import outcomes_of
from evaluation.runs.queries import data_sets_of, judges_asked
from generation.common.components import components
from generation.models import Call, Facet, Release, ReleasedRubric, ReleasedSample
from generation.models.work import Work
from generation.samples import errata

FETCHED = 100_000  # rows of SQLite in memory as Python objects at once
SAMPLE_COLUMNS = {
    "id": "sample",
    "task": "task",
    "version__sample__arm": "arm",
    "split": "split",
    "version__sample__record_id": "record",
    "version__sample__record__shares": "shares",
    "version__sample_id": "origin",
}


def read_table(rows: QuerySet[Any], columns: Mapping[str, str]) -> pl.DataFrame:
    """Columns of a query as a DataFrame: those that end in 'id' as integers, others as text.

    `columns`: field -> name in the DataFrame. PostgreSQL sends them as CSV, several times as fast
    as rows.
    """
    schema = {name: _type_of(field) for field, name in columns.items()}
    query, values = rows.order_by().values_list(*columns).query.sql_with_params()
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            content = BytesIO()
            # Django's cursor of a site in debug mode takes a statement alone.
            operations: Any = connection.ops
            whole = operations.compose_sql(f"COPY ({query}) TO STDOUT (FORMAT csv)", values)
            with cursor.copy(whole) as blocks:
                content.writelines(blocks)
            if not content.tell():
                return pl.DataFrame(schema=schema)
            content.seek(0)
            return pl.read_csv(content, has_header=False, schema=schema)
        cursor.execute(query, values)
        parts = [pl.DataFrame(schema=schema)]
        while fetched := cursor.fetchmany(FETCHED):
            parts.append(pl.DataFrame(fetched, schema=schema, orient="row"))
    return pl.concat(parts)


def _type_of(field: str) -> Any:
    if field.endswith("id") or field in ("repeat", "number"):
        return pl.Int64
    return pl.String


def run_frame(
    run: Run,
    datasets: Sequence[DataSet] | None = None,
    rules: Mapping[str, str] | None = None,
    as_of: datetime | None = None,
) -> Frame:
    """The frame of a run.

    Args:
        datasets: those to count; by default all that the run asks.
        rules: how each outcome and failure of the judge counts; by default those of the plan.
        as_of: errata and marks of tools that became known later are left out; by default none.
    """
    protocol = registry.protocol(run.release.benchmark)
    if datasets is None:
        datasets = data_sets_of(run)
    if rules is None:
        rules = outcomes_of(run, protocol)
    return build_frame(_tested(run), datasets, rules, run_tables(run, protocol, as_of))


def _tested(run: Run) -> list[str]:
    """The names of the models under test, in the order of the run."""
    return list(run.tested.order_by("pk").values_list("endpoint__name", flat=True))


def run_tables(
    run: Run, protocol: Protocol, as_of: datetime | None = None, arms: Collection[str] = (TRAP, CONTROL)
) -> Tables:
    """What the frame of a run is built of. `arms`: of the samples."""
    # Judgments first, so that each finds its response while the run is in progress.
    judgments = read_table(
        Judgment.objects.filter(run=run),
        {"response_id": "response", "rubric_id": "rubric", "verdict": "said", "status": "status", "error": "error"},
    )
    samples = load_samples(run.release, as_of).filter(pl.col("arm").is_in(list(arms)))
    return Tables(
        samples=samples.drop("cluster_kind", "arm"),
        rubrics=_rubrics(run.release),
        members=_members(run.release, protocol),
        responses=_responses(run),
        judgments=judgments,
        voids=_voids(run, as_of),
        variants_of=protocol.variants_of,
        repeats=run.answers_each,
        cluster_unit=cluster_unit(samples),
        pooled=protocol.pooled,
    )


def policy_frame(run: Run) -> Frame | None:
    """The frame of the fixed texts of a run; None if none was judged."""
    rows = policy_verdicts(run)
    if rows.is_empty():
        return None
    protocol = registry.protocol(run.release.benchmark)
    rules, tables = outcomes_of(run, protocol), run_tables(run, protocol)
    return policies.policy_frame(run.policies, data_sets_of(run), rules, tables, rows)


def twin_frame(run: Run) -> Frame | None:
    """The frame of controls and their rewordings, which stand for samples with a trap.

    None if the release has no rewordings.
    """
    if not ReleasedSample.objects.filter(release=run.release, version__sample__arm=REWORDED).exists():
        return None
    protocol = registry.protocol(run.release.benchmark)
    tables = run_tables(run, protocol, arms=(CONTROL, REWORDED))
    return build_frame(_tested(run), data_sets_of(run), outcomes_of(run, protocol), tables)


def policy_verdicts(run: Run) -> pl.DataFrame:
    """The verdicts on fixed texts: policy, sample, variant, key, said, error."""
    schema = {"policy": pl.String, "sample": pl.Int64, "variant": pl.String}
    schema |= dict.fromkeys(("key", "said", "error"), pl.String)
    ended = _ended_beside(run).filter(response=None)
    rows = []
    for policy, sample, variant, verdicts in ended.values_list("policy", "sample", "variant", "verdicts"):
        for key, each in verdicts.items():
            rows.append((policy, sample, variant, key, each["verdict"], each["error"]))
    return pl.DataFrame(rows, schema=schema, orient="row")


def verdicts_again(run: Run) -> pl.DataFrame:
    """What was asked or judged again: kind, judge, response, rubric, said.

    `kind`: of `PolicyAnswer.Again`. Only criteria with a verdict, or what their outcome counts as.
    """
    schema = {"kind": pl.String, "judge": pl.String, "response": pl.Int64, "sample": pl.Int64}
    schema |= dict.fromkeys(("key", "said"), pl.String)
    ended = _ended_beside(run).exclude(response=None)
    judge = ""
    if judges := judges_asked(run):
        judge = judges[0].name
    rows = []
    for kind, response, sample, verdicts in ended.values_list("policy", "response", "sample", "verdicts"):
        for key, each in verdicts.items():
            if each["verdict"]:
                rows.append((kind, judge, response, sample, key, each["verdict"]))
    again = pl.DataFrame(rows, schema=schema, orient="row")
    if again.is_empty():
        return again.select("kind", "judge", "response", pl.col("sample").alias("rubric"), "said")
    joined = again.join(_rubrics(run.release), on=["sample", "key"], maintain_order="left")
    return joined.select("kind", "judge", "response", "rubric", "said")


def _ended_beside(run: Run) -> QuerySet[PolicyAnswer]:
    """The ended answers beside those that count."""
    ended = (Work.Status.DONE, Work.Status.FAILED)
    return PolicyAnswer.objects.filter(run=run, status__in=ended).order_by("pk")


class RunVerdicts:
    """The frame of a run and the votes of its panel, read once for all figures on its judges."""

    def __init__(self, run: Run) -> None:
        self.run = run

    @cached_property
    def frame(self) -> Frame:
        return run_frame(self.run).current

    @cached_property
    def votes(self) -> pl.DataFrame:
        """The votes that have a verdict: judge, number, voted, response, rubric, warm."""
        columns = {
            "id": "vote",
            "judge__name": "judge",
            "repeat": "number",
            "verdict": "voted",
            "judgment__response_id": "response",
            "judgment__rubric_id": "rubric",
        }
        votes = read_table(Vote.objects.filter(run=self.run).exclude(verdict=""), columns)
        warm = pl.DataFrame(
            list(warm_votes(self.run).items()), schema={"vote": pl.Int64, "warm": pl.Boolean}, orient="row"
        )
        return votes.join(warm, on="vote", how="left", maintain_order="left").drop("vote")


def warm_votes(run: Run) -> dict[int, bool]:
    """Whether the endpoint had some of the prompt of each vote in its cache, by the vote's id.

    Without the votes of judges whose endpoints never say so.
    """
    calls = Call.objects.filter(job=run, subject__startswith="vote:", error="", hit_of=None)
    cached: dict[int, dict[int, bool]] = {}
    for judge, subject, tokens in calls.values_list("endpoint", "subject", "tokens_cached"):
        cached.setdefault(judge, {})[int(subject.removeprefix("vote:"))] = tokens > 0
    warm: dict[int, bool] = {}
    for of_judge in cached.values():
        if any(of_judge.values()):
            warm |= of_judge
    return warm


def _responses(run: Run) -> pl.DataFrame:
    columns = {
        "id": "response",
        "endpoint__name": "model",
        "variant": "variant",
        "repeat": "repeat",
        "sample_id": "sample",
        "outcome": "outcome",
        "status": "status",
    }
    # Those of a model that was left out, and which it had not given, were never asked.
    asked = Response.objects.filter(run=run).exclude(status=Work.Status.DROPPED)
    responses = read_table(asked, columns)
    return responses.with_columns((pl.col("status") == Work.Status.FAILED).alias("failed")).drop("status")


def _voids(run: Run, as_of: datetime | None) -> pl.DataFrame:
    """The marks of tools that verdicts of a run are void, as far as they were known."""
    rows = VoidVerdict.objects.filter(run=run)
    if as_of is None:
        known = rows
    else:
        known = rows.filter(at__lte=as_of)
    return read_table(known, {"response_id": "response", "rubric_id": "rubric", "reason": "void"})


def read_scores(run: Run) -> pl.DataFrame:
    """The scores that code gave responses: response, rubric, and a column for each score."""
    columns = {"response_id": "response", "rubric_id": "rubric", "names": "names", "numbers": "numbers"}
    stored = read_table(ResponseScore.objects.filter(run=run), columns)
    parts = []
    for (names,), rows in stored.group_by("names"):
        numbers = pl.col("numbers").str.split(" ").list
        scores = []
        for place, name in enumerate(str(names).split()):
            scores.append(numbers.get(place).cast(pl.Float64).alias(name))
        parts.append(rows.select("response", "rubric", *scores))
    empty = pl.DataFrame(schema={"response": pl.Int64, "rubric": pl.Int64})
    return pl.concat([empty, *parts], how="diagonal")


def load_samples(release: Release, as_of: datetime | None = None) -> pl.DataFrame:
    """The samples of a release, with their clusters, arms and parts: `Tables.samples`.

    Samples of one source record, or of records that share an image, a document or a patient
    (`SourceRecord.shares`), directly or through others, are one cluster (a number below 0); any
    other sample is a cluster of its own. Several released samples may be versions of one.
    `cluster_kind`: what is shared, several kinds joined by ', '; `arm`: trap, control or reworded.
    """
    rows = read_table(ReleasedSample.objects.filter(release=release), SAMPLE_COLUMNS)
    withdrawn = list(errata.withdrawn(release, as_of).values_list("sample", flat=True))
    rows = _with_groups(rows)
    is_shared = pl.col("origin").n_unique().over("group") > 1
    kind = pl.when(pl.col("kinds") != "").then("kinds").otherwise(pl.lit(RECORD))
    return rows.select(
        "sample",
        "task",
        pl.when(is_shared).then(-pl.col("record").min().over("group") - 1).otherwise(pl.col("sample")).alias("cluster"),
        pl.when(is_shared).then(kind).otherwise(pl.lit(SAMPLE)).alias("cluster_kind"),
        (pl.col("arm") == CONTROL).alias("is_control"),
        (pl.col("split") == HELD_OUT).alias("is_held_out"),
        pl.col("origin").is_in(withdrawn).alias("withdrawn"),
        "arm",
    )


def _with_groups(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows with `group`: the component of what their records share; and `kinds` of it."""
    rows = rows.with_row_index("place").with_columns(pl.col("place").cast(pl.Int64))
    things = pl.col("shares").fill_null("").str.split(" ")
    shared = rows.select("place", "record", things.alias("thing")).explode("thing").filter(pl.col("thing") != "")
    by_record = rows.select("place", "record", pl.col("record").cast(pl.String).alias("thing"))
    first = pl.col("place").min().over("thing")
    edges = pl.concat([by_record, shared]).select("place", first.alias("first"))
    rows = rows.with_columns(pl.Series("group", components(edges.to_numpy(), rows.height)))
    of_several = shared.filter(pl.col("record").n_unique().over("thing") > 1)
    of_several = of_several.join(rows.select("place", "group"), on="place")
    kind = pl.col("thing").str.split(":").list.first()
    kinds = of_several.group_by("group").agg(kind.unique().sort().str.join(", ").alias("kinds"))
    return rows.join(kinds, on="group", how="left", maintain_order="left").with_columns(pl.col("kinds").fill_null(""))


def cluster_unit(samples: pl.DataFrame) -> str:
    """What the clusters of these samples are: 'image', or 'image, record' for several kinds."""
    kinds = samples.filter(pl.col("cluster") < 0)["cluster_kind"].str.split(", ").explode()
    return ", ".join(kinds.unique().sort()) or SAMPLE


def _rubrics(release: Release) -> pl.DataFrame:
    """The rubrics of a release: `Tables.rubrics`."""
    rows = ReleasedRubric.objects.filter(sample__release=release)
    return read_table(rows, {"id": "rubric", "sample_id": "sample", "key": "key"})


def _members(release: Release, protocol: Protocol) -> pl.DataFrame:
    """The facets of rubrics, their polarity, and the keys that rates count."""
    of_release = ReleasedRubric.objects.filter(sample__release=release)
    facets = read_table(
        Facet.objects.filter(rubric__sample__release=release),
        {"name": "facet", "value": "value", "rubric_id": "rubric"},
    )
    own = F("sample__version__rubrics__polarity")
    with_polarity = of_release.filter(
        sample__version__rubrics__key=F("key"), sample__version__rubrics__polarity__in=["must", "must not"]
    )
    polarity = read_table(with_polarity.annotate(value=own), {"value": "value", "id": "rubric"})
    keys = protocol.rubrics_with_rates
    if keys:
        by_key = read_table(of_release.filter(key__in=keys), {"key": "value", "id": "rubric"})
    else:
        by_key = polarity.clear()
    parts = [facets]
    for name, rows in ((POLARITY, polarity), (RUBRIC, by_key)):
        parts.append(rows.select(pl.lit(name).alias("facet"), "value", "rubric"))
    return pl.concat(parts)
