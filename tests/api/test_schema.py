"""The schema: made without a warning, complete, and true enough that requests made from it break nothing."""

import io
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from django.core.management import call_command
from django.core.signals import request_finished, request_started
from django.db import close_old_connections
from django.urls import reverse
from drf_spectacular.generators import SchemaGenerator
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error

from generation.models import Batch, Comparison, Sample
from mhb_site.wsgi import application
from review.models import CalibrationItem, User
from tests.api.conftest import Api
from tests.api.test_lists import World
from tests.api.test_permissions import EXPECTED, address
from tests.engine import bare_release
from tests.in_progress import InProgress
from tests.profile import far
from tests.review.factories import account, opened, take

SIGN_OUT = ("/auth/logout/", "/auth/logoutall/")
EXAMPLES = far(2, 25)  # for each operation, twice where it is about one row


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    made: dict[str, Any] = SchemaGenerator().get_schema(request=None, public=True)
    return made


@pytest.mark.plain
def test_it_is_made_without_a_warning() -> None:
    out = io.StringIO()
    call_command("spectacular", "--validate", "--fail-on-warn", stdout=out)
    assert out.getvalue().startswith("openapi: 3")


@pytest.mark.plain
def test_every_route_is_in_it(schema: dict[str, Any]) -> None:
    described = sum(len(methods) for methods in schema["paths"].values())
    assert described == len(EXPECTED) - 1, "all but the schema itself"


@pytest.mark.plain
def test_every_operation_says_what_it_is_who_may_and_how_it_fails(schema: dict[str, Any]) -> None:
    for path, methods in schema["paths"].items():
        for method, operation in methods.items():
            assert operation["description"], (path, method)
            problem = operation["responses"]["default"]["content"]["application/problem+json"]["schema"]
            assert problem == {"$ref": "#/components/schemas/Problem"}
    assert "For: admin (`produce`)" in schema["paths"]["/api/v1/batches/"]["post"]["description"]
    assert "For: researcher or admin" in schema["paths"]["/api/v1/releases/"]["get"]["description"]


@pytest.mark.plain
def test_no_secret_has_a_place_in_an_answer(schema: dict[str, Any]) -> None:
    shapes = schema["components"]["schemas"]
    secret = {"password", "private", "canary", "path", "key", "api_key", "digest", "token_key"}
    found = {
        (name, field)
        for name, shape in shapes.items()
        for field in shape.get("properties", {})
        if field in secret and not name.endswith("Request")
    }
    keys_of_rubrics_and_questions = {(name, field) for name, field in found if field == "key"}
    assert found == keys_of_rubrics_and_questions
    assert not any("Endpoint" in name for name, _field in found)


def test_it_is_served_as_json(api: Api, rui: User, schema: dict[str, Any]) -> None:
    answer = api(rui).get(address("schema"))
    assert answer.status_code == 200
    assert answer.json()["paths"].keys() == schema["paths"].keys()


@pytest.fixture
def one_connection(db: None) -> Iterator[None]:
    """The end of a request does not close the connection that the test's transaction is on, as with Django's own client."""
    for signal in (request_started, request_finished):
        signal.disconnect(close_old_connections)
    yield
    for signal in (request_started, request_finished):
        signal.connect(close_old_connections)


def test_nothing_made_from_the_schema_breaks_the_server(api: Api, adela: User, ana: User, one_connection: None) -> None:
    """Requests that fit the schema, against a world with one row of everything, as someone who may."""
    world = World(adela, ana)
    world.grow()
    pair = Comparison.objects.get()
    for arm in "AB":
        Batch.objects.create(benchmark="mhb", source=pair.source, comparison=pair, arm=arm, created_at=world.now)
    opened(2)
    held = take(ana)
    there: dict[str, dict[str, Any]] = {
        "sources": {"name": world.source.name},
        "imports": {"id": world.run.pk},
        "endpoints": {"name": "e1"},
        "batches": {"id": world.batch.pk},
        "drafts": {"id": world.draft.pk},
        "comparisons": {"id": pair.pk},
        "samples": {"id": Sample.objects.get().pk},
        "cases": {"id": held.case_id},
        "assignments": {"assignment_id": held.pk},
        "reviews": {"review_id": 1},
        "releases": {"name": world.release.name, "version": 1},
        "runs": {"id": world.evaluation.pk},
        "reviewers": {"id": ana.pk},
    }
    there |= {"guidelines": {"benchmark": "mhb", "stage": "primary"}, "forms": {"benchmark": "mhb"}}
    there |= {"people": {"id": account("spare").pk}, "calibration": {"id": CalibrationItem.objects.get().pk}}
    statuses = _answers(api, adela, ana, {kind: [ids] for kind, ids in there.items()})
    assert not [status for status in statuses if status >= 500]
    assert {200, 400, 404, 409} <= set(statuses), "the requests reach all kinds of answers"


def test_nothing_made_from_the_schema_breaks_the_server_while_work_is_in_progress(
    api: Api, adela: User, ana: User, one_connection: None
) -> None:
    """The same of jobs that work with a known remaining time, rest, are paused or over, and of imports under way."""
    busy = InProgress(adela, bare_release(*[("dialogue", [["A1"], ["C1"]])] * 2))
    there: dict[str, list[dict[str, Any]]] = {
        "batches": [{"id": pk} for pk in busy.batches.values()],
        "runs": [{"id": pk} for pk in busy.runs.values()],
        "imports": [{"id": pk} for pk in busy.imports.values()],
        "comparisons": [{"id": busy.comparison}],
        "endpoints": [{"name": busy.generator.name}],
    }
    statuses = _answers(api, adela, ana, there, examples=1, made_up=False)
    assert not [status for status in statuses if status >= 500]
    assert {200, 202, 400, 409} <= set(statuses)


def _answers(
    api: Api,
    adela: User,
    ana: User,
    there: dict[str, list[dict[str, Any]]],
    examples: int = EXAMPLES,
    *,
    made_up: bool = True,
) -> dict[int, int]:
    """How often which status was answered to requests about what is there (kind -> path parameters), and about what is
    `made_up`."""
    tokens = {person: f"Bearer {api(person).token}" for person in (ana, adela)}
    served = schemathesis.openapi.from_wsgi(
        reverse("api:schema"), application, headers={"Authorization": tokens[adela]}
    )
    statuses: dict[int, int] = defaultdict(int)
    for found in served.get_all_operations():
        operation: Any = found.ok()  # type: ignore[union-attr]
        if operation.path.endswith(SIGN_OUT):
            continue
        kind = operation.path.split("/")[3]
        if kind not in there and "{" in operation.path:
            continue
        token = tokens[ana if kind in ("assignments", "reviews") else adela]
        ids = there[kind] if "{" in operation.path else []
        for path_parameters in [None, *ids] if made_up or not ids else ids:
            for status in _statuses(operation, token, path_parameters, examples):
                statuses[status] += 1
    return statuses


def _statuses(
    operation: Any, token: str, path_parameters: dict[str, Any] | None, examples: int = EXAMPLES
) -> list[int]:
    """What some requests made from one operation of the schema are answered."""
    found: list[int] = []

    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(path_parameters=path_parameters))
    def ask(case: Any) -> None:
        answer = case.call(headers={"Authorization": token})
        case.validate_response(answer, checks=[not_a_server_error])
        found.append(answer.status_code)

    ask()
    return found
