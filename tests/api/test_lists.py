"""Lists are paged by cursor, and their number of queries does not depend on the number of rows."""

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from evaluation.models import Judgment, Response, Run, RunEndpoint
from generation.endpoints import services
from generation.models import (
    Batch,
    Call,
    Comparison,
    Draft,
    Endpoint,
    Finding,
    Freeze,
    Import,
    ImportRefusal,
    Release,
    ReleasedRubric,
    ReleasedSample,
    Rubric,
    Sample,
    SampleVersion,
    Source,
    SourceRecord,
)
from review.models import CalibrationItem, Delivery, Guideline, Remark, ReviewForm, User, Webhook
from tests.api.conftest import Api, Client
from tests.review.factories import account, approval, claim_and_submit, open_case


def exported(key: str) -> dict[str, Any]:
    """A released sample's object in the export, without its rubrics."""
    header = {"sample_id": key, "version": 1, "benchmark": "mhb", "task": "dialogue", "simulated": True}
    content = {"turns": [{"role": "user", "content": "Does it hurt?"}]}
    return {**header, "source": {}, "content": content, "facets": {}, "review": {}}


class World:
    """Rows of every kind: each `grow` adds one. Nested lists belong to the first parent."""

    def __init__(self, admin: User, physician: User) -> None:
        self.admin, self.physician, self.count, self.now = admin, physician, 0, timezone.now()

    def grow(self) -> None:
        """Add one row of every kind."""
        self.count += 1
        n, now, first = self.count, self.now, self.count == 1
        case = open_case(n)
        assignment = claim_and_submit(self.physician, approval())
        if first:
            self.case, self.assignment = case, assignment
        Remark.objects.create(case=self.case, author=self.admin, text="So it is.", at=now)
        Guideline.objects.create(benchmark="invented", stage="primary", version=n, text="t", author=self.admin, at=now)
        CalibrationItem.objects.create(
            benchmark="mhb", title="t", spec=case.spec, expected={}, active=False, created_at=now
        )
        ReviewForm.objects.create(benchmark="mhb", version=n + 1, author=self.admin, at=now)
        endpoint = services.add_endpoint(name=f"e{n}", url="http://127.0.0.1:1/v1", model="sim")
        hook = Webhook.objects.create(name=f"hook{n}", url="http://127.0.0.1:1/", secret_env="MHB_KEY_HOOK")
        if first:
            self.webhook = hook
        Delivery.objects.create(webhook=self.webhook, occasion="test", status="sent")
        source = Source.objects.create(name=f"s{n}", format="healthbench", label="l", licence="x", created_at=now)
        run = Import.objects.create(source=source, file_name="f", path="p", created_by=self.admin, created_at=now)
        batch = Batch.objects.create(benchmark="mhb", source=source, created_by=self.admin, created_at=now)
        release = Release.objects.create(
            name=f"r{n}", version=1, benchmark="mhb", samples_count=1, rubrics_count=1, counts={}, generators=[],
            sources=[], simulated=True, sha256="0" * 64, created_by=self.admin, created_at=now,
        )  # fmt: skip
        evaluation = Run.objects.create(release=release, judge=endpoint, created_by=self.admin, created_at=now)
        for tested in Endpoint.objects.all():
            RunEndpoint.objects.create(run=evaluation, endpoint=tested)
        if first:
            self.source, self.run, self.batch, self.release, self.evaluation = source, run, batch, release, evaluation
        ImportRefusal.objects.create(run=self.run, where=f"line {n}", reason="It is blank.")
        record = SourceRecord.objects.create(source=self.source, external_id=str(n), title="t", content={"kind": "x"})
        draft = Draft.objects.create(batch=self.batch, record=record, status="done")
        if first:
            self.draft = draft
        Call.objects.create(
            job=self.batch, subject=f"draft:{self.draft.pk}", endpoint=endpoint, model="sim", seconds=1.0,
            attempt=1, started_at=now,
        )  # fmt: skip
        for job in (self.batch, self.evaluation):
            Call.objects.create(
                job=job, subject="", endpoint=endpoint, model="sim", seconds=1.0, attempt=1, started_at=now,
                error="ServerError",
            )  # fmt: skip
        Freeze.objects.create(name=f"r{n}", benchmark="mhb", created_at=now)
        Finding.objects.create(draft=draft, check_name="leak", stops=False, detail="d", created_at=now)
        Comparison.objects.create(benchmark="mhb", source=source, created_at=now)
        sample = Sample.objects.create(benchmark="mhb", task="dialogue", batch=batch, record=record, created_at=now)
        version = SampleVersion.objects.create(
            sample=sample, number=1, draft=draft, case=case, title="t", content={}, created_at=now
        )
        Rubric.objects.create(version=version, key="R1", criterion="c")
        released = ReleasedSample.objects.create(
            release=self.release, position=n, version=version, key=f"k{n}", task="dialogue", exported=exported(f"k{n}")
        )
        rubric = ReleasedRubric.objects.create(sample=released, key="R1", criterion="c")
        answered = {"status": "done", "outcome": "answered"}
        response = Response.objects.create(run=self.evaluation, endpoint=endpoint, sample=released, **answered)
        Judgment.objects.create(run=self.evaluation, response=response, rubric=rubric, status="done", verdict="met")


LISTS: dict[str, Callable[[World], list[Any]]] = {
    "sources": lambda world: [],
    "source-records": lambda world: [world.source.name],
    "imports": lambda world: [],
    "import-refusals": lambda world: [world.run.pk],
    "webhooks": lambda world: [],
    "deliveries": lambda world: [],
    "endpoints": lambda world: [],
    "batches": lambda world: [],
    "batch-drafts": lambda world: [world.batch.pk],
    "batch-failures": lambda world: [world.batch.pk],
    "run-failures": lambda world: [world.evaluation.pk],
    "batch-findings": lambda world: [world.batch.pk],
    "comparisons": lambda world: [],
    "draft-calls": lambda world: [world.draft.pk],
    "samples": lambda world: [],
    "cases": lambda world: [],
    "calibration": lambda world: [],
    "review-mine": lambda world: [],
    "case-remarks": lambda world: [world.case.pk],
    "assignment-remarks": lambda world: [world.assignment.pk],
    "guideline-versions": lambda world: ["invented", "primary"],
    "review-form-versions": lambda world: ["mhb"],
    "releases": lambda world: [],
    "release-samples": lambda world: [world.release.name, world.release.version],
    "freezes": lambda world: [],
    "runs": lambda world: [],
    "run-responses": lambda world: [world.evaluation.pk],
    "run-judgments": lambda world: [world.evaluation.pk],
}
PHYSICIANS = ("review-mine", "assignment-remarks")


def test_every_paged_route_is_covered_here() -> None:
    from tests.api.test_permissions import routes

    def is_paged(route: Any) -> bool:
        view, extra = route.callback.cls, getattr(route.callback, "initkwargs", {})
        listed = getattr(route.callback, "actions", {"get": "list"}).get("get") == "list" and hasattr(view, "list")
        return extra.get("pagination_class") is not None or (
            listed and getattr(view, "pagination_class", None) is not None
        )

    # These have tests of their own: `grow` adds no account but several events, pairs need two
    # batches, and rewordings need a second reviewer who proposes them.
    elsewhere = {"people", "audit-acts", "audit-events", "comparison-pairs", "rewordings"}
    assert {name for name, route in routes().items() if is_paged(route)} == {*LISTS, *elsewhere}


@pytest.fixture
def world(adela: User, ana: User) -> World:
    world = World(adela, ana)
    world.grow()
    return world


def read(client: Client, address: str) -> tuple[list[Any], int]:
    """The rows of a list, and the number of queries that it took."""
    with CaptureQueriesContext(connection) as queries:
        answer = client.get(address)
    assert answer.status_code == 200, answer.content
    return answer.json()["results"], len(queries)


def test_the_number_of_queries_does_not_grow_with_the_rows(api: Api, world: World) -> None:
    clients = {True: api(world.physician), False: api(world.admin)}
    addresses = {name: reverse(f"api:{name}", args=arguments(world)) for name, arguments in LISTS.items()}
    before = {name: read(clients[name in PHYSICIANS], address) for name, address in addresses.items()}
    for _ in range(4):
        world.grow()
    after = {name: read(clients[name in PHYSICIANS], address) for name, address in addresses.items()}
    assert {name: len(rows) for name, (rows, _) in before.items()} == dict.fromkeys(LISTS, 1)
    assert {name: len(rows) for name, (rows, _) in after.items()} == dict.fromkeys(LISTS, 5)
    assert {name: n for name, (_, n) in after.items()} == {name: n for name, (_, n) in before.items()}


def test_a_cursor_leads_forward_and_back_and_new_rows_shift_nothing(api: Api, world: World) -> None:
    for _ in range(4):
        world.grow()
    client = api(world.admin)
    first = client.get(reverse("api:cases"), {"page_size": 2}).json()
    world.grow()
    second = client.get(first["next"]).json()
    third = client.get(second["next"]).json()
    numbers = [row["lineage"][-1] for page in (first, second, third) for row in page["results"]]
    assert numbers == ["5", "4", "3", "2", "1"]
    assert third["next"] is None
    back = client.get(second["previous"]).json()
    assert [row["lineage"][-1] for row in back["results"]] == ["5", "4"]


def test_the_page_size_is_limited(api: Api, world: World) -> None:
    from review.common.api import NewestFirst

    request = type("Request", (), {"query_params": {"page_size": "100000"}})()
    assert NewestFirst().get_page_size(request) == 200


def test_lists_can_be_filtered(api: Api, world: World) -> None:
    world.grow()
    client = api(world.admin)

    def matches(name: str, *args: Any, **query: Any) -> int:
        return len(client.get(reverse(f"api:{name}", args=args), query).json()["results"])

    assert matches("cases", text="Case 2") == matches("cases", text="invented-000001") == 1
    assert (
        matches("cases", state="secondary"),
        matches("cases", state="primary"),
        matches("cases", benchmark="mhb"),
    ) == (
        2,
        0,
        0,
    )
    assert (matches("samples", batch=world.batch.pk), matches("samples", status="approved")) == (1, 0)
    assert (
        matches("batch-drafts", world.batch.pk, status="done"),
        matches("batch-drafts", world.batch.pk, status="failed"),
    ) == (2, 0)
    assert matches("run-responses", world.evaluation.pk, endpoint="e2") == 1
    assert matches("run-judgments", world.evaluation.pk, verdict="met", endpoint="e1") == 1


def test_the_list_of_accounts_takes_as_many_queries_for_many_as_for_one(api: Api, adela: User) -> None:
    client, address = api(adela), reverse("api:people")
    few, before = read(client, address)
    for number in range(4):
        account(f"another-{number}")
    many, after = read(client, address)
    assert (len(few), len(many)) == (1, 5)
    assert before == after
