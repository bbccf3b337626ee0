"""The schema is generated without warnings and complete; requests built from it break nothing."""

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
from tests.profile import by_profile
from tests.review.factories import account, claim, open_case

SIGN_OUT = ("/auth/logout/", "/auth/logoutall/")
EXAMPLES = by_profile(2, 25)  # requests per operation, twice as many where it addresses one row


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    generated: dict[str, Any] = SchemaGenerator().get_schema(request=None, public=True)
    return generated


@pytest.mark.plain
def test_the_schema_is_generated_without_warnings() -> None:
    out = io.StringIO()
    call_command("spectacular", "--validate", "--fail-on-warn", stdout=out)
    assert out.getvalue().startswith("openapi: 3")


@pytest.mark.plain
def test_the_schema_contains_every_route(schema: dict[str, Any]) -> None:
    described = sum(len(methods) for methods in schema["paths"].values())
    assert described == len(EXPECTED) - 2, "all routes but the schema itself and what nginx asks"


@pytest.mark.plain
def test_every_list_in_a_request_has_a_limit(schema: dict[str, Any]) -> None:
    parts = schema["components"]["schemas"]

    def unlimited(part: dict[str, Any], place: str) -> Iterator[str]:
        if reference := part.get("$ref"):
            part = parts[reference.rsplit("/")[-1]]
        if part.get("readOnly"):
            return
        if part.get("type") == "array" and "$ref" not in part["items"]:  # lists of objects: ListSerializer's own
            if "maxItems" not in part:
                yield place
            yield from unlimited(part["items"], f"{place}[]")
        for name, inner in part.get("properties", {}).items():
            yield from unlimited(inner, f"{place}.{name}")

    for path, methods in schema["paths"].items():
        for method, operation in methods.items():
            body = operation.get("requestBody", {}).get("content", {}).get("application/json")
            assert not body or not list(unlimited(body["schema"], f"{method} {path}"))


@pytest.mark.plain
def test_every_operation_has_a_description_its_roles_and_an_error_format(schema: dict[str, Any]) -> None:
    for path, methods in schema["paths"].items():
        for method, operation in methods.items():
            assert operation["description"], (path, method)
            problem = operation["responses"]["default"]["content"]["application/problem+json"]["schema"]
            assert problem == {"$ref": "#/components/schemas/Problem"}
    assert "For: admin (`produce`)" in schema["paths"]["/api/v1/batches/"]["post"]["description"]
    assert "For: researcher or admin" in schema["paths"]["/api/v1/releases/"]["get"]["description"]


@pytest.mark.plain
@pytest.mark.parametrize(
    ("path", "content", "field", "words"),
    [
        ("imports", "multipart/form-data", "name", "existing source"),
        ("imports", "multipart/form-data", "update", "next revision"),
        ("imports/preview", "multipart/form-data", "mapping", "guessed"),
        ("prompts/{benchmark}", "application/json", "texts", "`based_on`"),
        ("reviews/{review_id}/correct", "application/json", "answers", "replaces the submitted one"),
    ],
)
def test_a_field_says_what_its_name_does_not(
    schema: dict[str, Any], path: str, content: str, field: str, words: str
) -> None:
    body = schema["paths"][f"/api/v1/{path}/"]["post"]["requestBody"]["content"][content]["schema"]
    shape = schema["components"]["schemas"][body["$ref"].rsplit("/")[-1]]
    assert words in shape["properties"][field]["description"]


@pytest.mark.plain
def test_no_answer_has_a_field_for_a_secret(schema: dict[str, Any]) -> None:
    shapes = schema["components"]["schemas"]
    secret = {"password", "private", "canary", "path", "key", "api_key", "digest", "token_key"}
    exposed = {
        (name, field)
        for name, shape in shapes.items()
        for field in shape.get("properties", {})
        if field in secret and not name.endswith("Request")
    }
    keys_of_rubrics_and_questions = {(name, field) for name, field in exposed if field == "key"}
    assert exposed == keys_of_rubrics_and_questions
    assert not any("Endpoint" in name for name, _field in exposed)


def test_the_schema_is_served_as_json(api: Api, rui: User, schema: dict[str, Any]) -> None:
    answer = api(rui).get(address("schema"))
    assert answer.status_code == 200
    assert answer.json()["paths"].keys() == schema["paths"].keys()


@pytest.fixture
def one_connection(db: None) -> Iterator[None]:
    """Keep the connection of the test open after a request, as Django's client does."""
    for signal in (request_started, request_finished):
        signal.disconnect(close_old_connections)
    yield
    for signal in (request_started, request_finished):
        signal.connect(close_old_connections)


def test_requests_built_from_the_schema_do_not_break_the_server(
    api: Api, adela: User, ana: User, one_connection: None
) -> None:
    """Send permitted requests that fit the schema to a database with one row of everything."""
    world = World(adela, ana)
    world.grow()
    pair = Comparison.objects.get()
    for arm in "AB":
        Batch.objects.create(benchmark="mhb", source=pair.source, comparison=pair, arm=arm, created_at=world.now)
    open_case(2)
    assignment = claim(ana)
    existing: dict[str, dict[str, Any]] = {
        "sources": {"name": world.source.name},
        "imports": {"id": world.run.pk},
        "webhooks": {"name": "hook1"},
        "endpoints": {"name": "e1"},
        "batches": {"id": world.batch.pk},
        "drafts": {"id": world.draft.pk},
        "comparisons": {"id": pair.pk},
        "samples": {"id": Sample.objects.get().pk},
        "cases": {"id": assignment.case_id},
        "assignments": {"assignment_id": assignment.pk},
        "reviews": {"review_id": 1},
        "releases": {"name": world.release.name, "version": 1},
        "runs": {"id": world.evaluation.pk},
        "reviewers": {"id": ana.pk},
    }
    existing |= {"guidelines": {"benchmark": "mhb", "stage": "primary"}, "forms": {"benchmark": "mhb"}}
    existing |= {"people": {"id": account("spare").pk}, "calibration": {"id": CalibrationItem.objects.get().pk}}
    statuses = _count_statuses(api, adela, ana, {kind: [ids] for kind, ids in existing.items()})
    assert not [status for status in statuses if status >= 500]
    assert {200, 400, 404, 409} <= set(statuses), "the requests provoke all kinds of answers"


def test_requests_built_from_the_schema_do_not_break_the_server_while_jobs_work(
    api: Api, adela: User, ana: User, one_connection: None
) -> None:
    """Likewise with jobs that work, rest, are paused or have ended, and with running imports."""
    jobs = InProgress(adela, bare_release(*[("dialogue", [["A1"], ["C1"]])] * 2))
    existing: dict[str, list[dict[str, Any]]] = {
        "batches": [{"id": pk} for pk in jobs.batches.values()],
        "runs": [{"id": pk} for pk in jobs.runs.values()],
        "imports": [{"id": pk} for pk in jobs.imports.values()],
        "comparisons": [{"id": jobs.comparison}],
        "endpoints": [{"name": jobs.generator.name}],
    }
    statuses = _count_statuses(api, adela, ana, existing, examples=1, made_up=False)
    assert not [status for status in statuses if status >= 500]
    assert {200, 202, 400, 409} <= set(statuses)


def _count_statuses(
    api: Api,
    adela: User,
    ana: User,
    existing: dict[str, list[dict[str, Any]]],
    examples: int = EXAMPLES,
    *,
    made_up: bool = True,
) -> dict[int, int]:
    """Send requests to every operation and return how often each status was answered.

    `existing`: path parameters of existing rows by kind; `made_up`: also send made-up parameters.
    """
    tokens = {person: f"Bearer {api(person).token}" for person in (ana, adela)}
    served = schemathesis.openapi.from_wsgi(
        reverse("api:schema"), application, headers={"Authorization": tokens[adela]}
    )
    statuses: dict[int, int] = defaultdict(int)
    for result in served.get_all_operations():
        operation: Any = result.ok()  # type: ignore[union-attr]
        if operation.path.endswith(SIGN_OUT):
            continue
        kind = operation.path.split("/")[3]
        if kind not in existing and "{" in operation.path:
            continue
        token = tokens[ana if kind in ("assignments", "reviews") else adela]
        ids = existing[kind] if "{" in operation.path else []
        for path_parameters in [None, *ids] if made_up or not ids else ids:
            for status in _send_requests(operation, token, path_parameters, examples):
                statuses[status] += 1
    return statuses


def _send_requests(
    operation: Any, token: str, path_parameters: dict[str, Any] | None, examples: int = EXAMPLES
) -> list[int]:
    """Send requests built from one operation of the schema; returns the statuses of the answers."""
    statuses: list[int] = []

    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(path_parameters=path_parameters))
    def send(case: Any) -> None:
        answer = case.call(headers={"Authorization": token})
        case.validate_response(answer, checks=[not_a_server_error])
        statuses.append(answer.status_code)

    send()
    return statuses
