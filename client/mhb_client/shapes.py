"""What the site takes and answers, as far as the client uses it. A test compares it to the API."""

from typing import Any, Literal, NotRequired, TypedDict


class Launch(TypedDict, total=False):
    """What batches and runs have in common. A budget is needed, or `confirmed`."""

    seed: int
    prompts: str
    preset: str
    budget_money: str | None
    budget_calls: int | None
    priority: Literal["high", "normal", "low"]
    most_lanes: int | None
    first_only: bool
    fresh: bool
    confirmed: bool
    like: int | None


class LaunchRun(Launch, total=False):
    """A run to launch; `release` is NAME or NAME@VERSION."""

    release: str
    datasets: list[str]
    answers: int
    endpoints: list[str]
    judge: str | None
    further_judges: list[str]
    panel: Literal["majority", "unanimity", "escalation"]
    judgments: int
    judge_temperature: float | None
    judging: Literal["per-rubric", "per-sample"]
    sampling: Literal["protocol", "endpoint"]
    transport: Literal["live", "batch"]
    metric: str
    primary_dataset: str
    policies: list[str]
    policy_samples: int
    minimum: int
    comparisons: list[str]
    outcomes: dict[str, str] | list[str]


class LaunchBatch(Launch, total=False):
    """A batch to launch over records that have no draft of the benchmark yet."""

    benchmark: str
    source: str
    roles: dict[str, str]
    limit: int | None
    draw: str
    where: dict[str, list[str]]
    again: bool
    plan: Any
    further_endpoints: list[str]
    settings: dict[str, Any]
    checks: list[str] | None
    one_model: bool


class Progress(TypedDict):
    """How far a job is, what it called and what it cost."""

    percent: int
    calls: int
    cost: str


class JobState(TypedDict):
    """A batch or a run as it is now."""

    id: int
    status: Literal["running", "paused", "finished", "cancelled"]
    paused_because: str
    paused_detail: str
    advice: str
    progress: Progress


class Row(TypedDict):
    """A model on a data set: its first rate, and all of them by name."""

    endpoint: str
    dataset: str
    value: NotRequired[str]
    label: NotRequired[str]
    rate: float | None
    low: float | None
    high: float | None
    numerator: int
    denominator: int
    unjudged: int
    n: int
    clusters: int
    method: str
    rates: dict[str, dict[str, Any]]
    verdicts: dict[str, int]


class Report(TypedDict):
    """The report of a run. The site answers with more fields, which are there as well."""

    run: int
    release: str
    release_version: int
    release_sha256: str
    benchmark: str
    finished: bool
    simulated: bool
    notice: NotRequired[str]
    endpoints: list[str]
    overall: list[Row]
    facets: dict[str, list[Row]]
    cost: str


class Release(TypedDict):
    """A frozen release; the digests are those of its lines as JSON Lines."""

    name: str
    version: int
    benchmark: str
    simulated: bool
    samples_count: int
    rubrics_count: int
    sha256: str
    held_out_sha256: str


class Problem(TypedDict):
    """What went wrong, as the site says it (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: NotRequired[str]
    errors: NotRequired[list[dict[str, str]]]
    problems: NotRequired[list[dict[str, str]]]
