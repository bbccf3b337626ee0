"""The Python client on this site, with simulated models, and on one that is busy or breaks off."""

import json
import types
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal, NotRequired, Union, get_args, get_origin, get_type_hints, is_typeddict

import httpx2
import pytest
from django.test import Client as Django
from knox.models import AuthToken

import mhb_client
from evaluation.models import Run
from evaluation.runs import work as runs_work
from generation.batches import services as batches_services
from generation.models import Release
from mhb_client import client as module
from mhb_client import errors, shapes
from review.models import User
from tests.api.test_docs_md import operation, resolve, schema
from tests.engine import conversations_file, endpoint, import_file, make_release, models, no_long_waits

__all__ = ["models", "no_long_waits"]
LAUNCH: dict[str, Any] = {"endpoints": ["sim-careful", "sim-reckless"], "judge": "sim-judge", "confirmed": True}


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses of the client, which take no time here."""
    pauses: list[float] = []
    monkeypatch.setattr(module, "time", types.SimpleNamespace(monotonic=lambda: sum(pauses), sleep=pauses.append))
    return pauses


@pytest.fixture
def release(tmp_path: Path, models: str, ana: User, bo: User) -> Release:
    for model in ("sim-careful", "sim-reckless", "sim-judge"):
        endpoint(models, model)
    return make_release(tmp_path, models, [ana, bo], conversations=3)


def this_site(request: httpx2.Request) -> httpx2.Response:
    """Pass a request of the client to Django's test client, and its answer back as a stream."""
    kind = request.headers.get("Content-Type", "")
    passed = {name: request.headers[name] for name in ("Authorization", "Idempotency-Key") if name in request.headers}
    answer: Any = Django().generic(request.method, str(request.url), request.content, kind, headers=passed)
    content = answer.streaming_content if answer.streaming else [answer.content]
    return httpx2.Response(answer.status_code, headers=dict(answer.items()), content=iter(content))


@pytest.fixture
def site(adela: User) -> Iterator[mhb_client.Client]:
    """A client of this site, as an admin."""
    _stored, token = AuthToken.objects.create(adela, expiry=timedelta(days=1))
    with mhb_client.Client("http://testserver", token, transport=httpx2.MockTransport(this_site)) as client:
        yield client


def scripted(*answers: httpx2.Response | Exception, **options: Any) -> tuple[mhb_client.Client, list[httpx2.Request]]:
    """A client of a site that gives these answers, one after the other."""
    asked: list[httpx2.Request] = []
    waiting = list(answers)

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append(request)
        given = waiting.pop(0)
        if isinstance(given, Exception):
            raise given
        return given

    return mhb_client.Client("https://x.example/mhb/", "t", transport=httpx2.MockTransport(answer), **options), asked


def problem(status: int, headers: dict[str, str] | None = None, **fields: Any) -> httpx2.Response:
    body = {"type": "urn:mhb:x", "title": "No", "status": status, **fields}
    return httpx2.Response(
        status, content=json.dumps(body), headers={"Content-Type": "application/problem+json", **(headers or {})}
    )


# ------------------------------------------------------------------------------- against the schema


@pytest.mark.plain
@pytest.mark.parametrize(
    ("method", "path", "header"),
    [
        ("POST", "/api/v1/runs/", "Idempotency-Key"), ("POST", "/api/v1/batches/", "Idempotency-Key"),
        ("GET", "/api/v1/runs/1/", ""), ("GET", "/api/v1/batches/1/", ""), ("GET", "/api/v1/runs/1/report/", ""),
        ("GET", "/api/v1/releases/a/1/", ""), ("GET", "/api/v1/releases/a/1/export/", "split"),
        ("GET", "/api/v1/batches/1/drafts/", "cursor"), ("GET", "/api/v1/runs/1/judgments/", "cursor"),
    ],
)  # fmt: skip
def test_every_path_is_in_the_schema(method: str, path: str, header: str) -> None:
    names = {parameter["name"] for parameter in operation(path, method).get("parameters", [])}
    assert not header or header in names


def fits(hint: Any, shape: dict[str, Any], where: str) -> None:
    """Check that the values of a schema are those of a type."""
    if get_origin(hint) is NotRequired:
        return fits(get_args(hint)[0], shape, where)
    inner = resolve(shape)
    if get_origin(hint) in (Union, types.UnionType):
        kinds = [kind for kind in get_args(hint) if kind is not type(None)]
        assert (type(None) in get_args(hint)) == bool(shape.get("nullable")), where
        choices = shape.get("oneOf", [shape])
        assert len(kinds) == len(choices), where
        for kind, choice in zip(kinds, choices, strict=True):
            fits(kind, {**choice, "nullable": False}, where)
    elif get_origin(hint) is Literal:
        assert set(get_args(hint)) == set(inner["enum"]), where
    elif is_typeddict(hint):
        fields = get_type_hints(hint, include_extras=True)
        assert fields.keys() <= inner["properties"].keys(), where
        for name, field in fields.items():
            fits(field, inner["properties"][name], f"{where}.{name}")
    elif hint is not Any:
        python = {"string": str, "integer": int, "number": float, "boolean": bool, "array": list, "object": dict}
        assert not shape.get("nullable"), f"{where} may be null"
        assert python[inner["type"]] is (get_origin(hint) or hint), where
        values = inner.get("properties") or {"*": inner.get("items") or inner.get("additionalProperties")}
        for name, value in values.items() if get_origin(hint) else ():
            fits(get_args(hint)[-1], value, f"{where}.{name}")
    return None


@pytest.mark.plain
@pytest.mark.parametrize(
    ("hint", "name"),
    [
        (shapes.LaunchRun, "LaunchRunRequest"), (shapes.LaunchBatch, "LaunchBatchRequest"),
        (shapes.JobState, "WholeRun"), (shapes.JobState, "WholeBatch"), (shapes.Report, "Report"),
        (shapes.Release, "WholeRelease"), (shapes.Problem, "Problem"),
    ],
)  # fmt: skip
def test_every_field_is_in_the_schema(hint: Any, name: str) -> None:
    shape = schema()["components"]["schemas"][name]
    fits(hint, shape, name)
    if name.startswith("Launch"):
        assert get_type_hints(hint).keys() == shape["properties"].keys(), "all that can be launched"


# ------------------------------------------------------------------------------------- on this site


def test_a_run_from_launch_to_data_frame(
    site: mhb_client.Client, release: Release, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = site.launch_run(key="mine", release="own@1", **LAUNCH)
    assert site.launch_run(key="mine", release="own@1", **LAUNCH).id == run.id
    with pytest.raises(errors.Conflict) as reused:
        site.launch_run(key="mine", release="own@1", **{**LAUNCH, "seed": 7})
    assert reused.value.type == "urn:mhb:key-reused"
    assert Run.objects.count() == 1
    monkeypatch.setattr("mhb_client.client.time.sleep", lambda _seconds: runs_work.work_on_run(run.id))
    report = run.wait().report()
    assert "100%" in capsys.readouterr().err, "a progress bar"
    assert report["notice"] == "Simulated models: not evidence."
    frame = mhb_client.frame(report)
    rates = dict(zip(frame["endpoint"], frame["rate"], strict=True))
    assert rates == {row["endpoint"]: row["rate"] for row in report["overall"]}
    assert rates["sim-careful"] < rates["sim-reckless"]
    assert frame.attrs == {"run": run.id, "release": "own@1", "notice": report["notice"]}
    by_trap = mhb_client.frame(report, "subtype")
    assert set(by_trap["value"]) == {row["value"] for row in report["facets"]["subtype"]}
    with pytest.raises(KeyError, match="subtype"):
        mhb_client.frame(report, "season")
    asked = list(run.judgments(endpoint="sim-reckless", page_size=2))
    assert len({row["id"] for row in asked}) == len(asked) == release.rubrics_count


def test_a_batch(site: mhb_client.Client, models: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import_file(conversations_file(tmp_path / "own.jsonl", 3))
    endpoint(models)
    roles = {"generator": "sim-generator", "examiner": "sim-generator"}
    batch = site.launch_batch(benchmark="mhb", source="own", roles=roles, one_model=True, budget_calls=100, checks=[])
    monkeypatch.setattr("mhb_client.client.time.sleep", lambda _seconds: batches_services.work_on_batch(batch.id))
    assert batch.wait(progress=False).state["progress"]["percent"] == 100
    assert len(list(batch.drafts(page_size=2))) == 3
    assert site.batch(batch.id).state == batch.state


def test_a_release_is_streamed(site: mhb_client.Client, release: Release) -> None:
    samples = list(site.samples("own", 1))
    listed = list(site.rows("releases/own/1/samples/", page_size=2))
    assert [sample["sample_id"] for sample in samples] == [row["key"] for row in listed]


def test_refusals_are_typed(site: mhb_client.Client, release: Release) -> None:
    with pytest.raises(errors.Invalid, match="budget"):
        site.launch_run(release="own@1", endpoints=["sim-careful"], judge="sim-judge")
    with pytest.raises(errors.NotFound):
        site.run(404)
    stranger = mhb_client.Client("http://testserver", "wrong", transport=httpx2.MockTransport(this_site))
    with pytest.raises(errors.Unauthorised):
        stranger.run(1)


# ------------------------------------------------------------------------------ on a difficult site


def test_a_report_that_a_worker_counts_is_waited_for(slept: list[float]) -> None:
    counting = problem(503, {"Retry-After": "5"}, type="urn:mhb:still-counting")
    client, asked = scripted(counting, problem(429, {"Retry-After": "40"}), httpx2.Response(200, json={"run": 1}))
    assert client.get("runs/1/report/") == {"run": 1}
    assert slept == [5, 40]
    assert {str(request.url) for request in asked} == {"https://x.example/mhb/api/v1/runs/1/report/"}
    assert asked[0].headers["Authorization"] == "Bearer t"


def test_a_wait_beyond_ones_patience_is_an_error_at_once(slept: list[float]) -> None:
    client, _asked = scripted(problem(429, {"Retry-After": "900"}), patience=60)
    with pytest.raises(errors.TooManyRequests) as refused:
        client.get("runs/")
    assert (refused.value.retry_after, slept) == (900, [])


def test_a_launch_whose_answer_is_lost_is_repeated_under_its_key(slept: list[float]) -> None:
    state = {"id": 4, "status": "running"}
    client, asked = scripted(httpx2.ReadError("cut"), httpx2.Response(502), httpx2.Response(202, json=state))
    assert client.launch_run(release="own").id == 4
    assert len(slept) == 2
    assert len({request.headers["Idempotency-Key"] for request in asked}) == 1


def test_a_wrong_address_is_said_at_once(slept: list[float]) -> None:
    client, _asked = scripted(httpx2.ConnectError("no such host"))
    with pytest.raises(errors.ConnectionLost, match="no such host"):
        client.get("me/")
    moved, _asked = scripted(httpx2.Response(301, headers={"Location": "https://y.example/"}))
    with pytest.raises(errors.ProblemError, match=r"y\.example"):
        moved.get("me/")
    portal, _asked = scripted(httpx2.Response(200, content="<html>"))
    with pytest.raises(errors.MHBError, match="is this an MHB site"):
        portal.get("me/")
    assert slept == []


@pytest.mark.parametrize(
    "body",
    [
        "[]", "null", "5", '"no"', "{", "[" * 100_000, '{"title": 5, "type": null, "status": "400"}',
        '{"errors": null, "problems": {"a": 1}}', '{"errors": ["wrong", null, {"field": "a"}, {"detail": 5}]}',
    ],
)  # fmt: skip
def test_a_refusal_in_any_words_is_one_by_its_status(body: str) -> None:
    client, _asked = scripted(httpx2.Response(400, content=body, headers={"Content-Type": "application/problem+json"}))
    with pytest.raises(errors.Invalid, match=r"^400 Bad Request") as refused:
        client.get("me/")
    assert (refused.value.status, refused.value.type) == (400, "about:blank")


def test_an_answer_that_cannot_be_unpacked_is_a_lost_one(slept: list[float]) -> None:
    torn = httpx2.Response(503, content=iter([b"torn"]), headers={"Content-Encoding": "gzip"})
    client, asked = scripted(torn, httpx2.Response(200, json={"id": 1}))
    assert client.get("me/") == {"id": 1}
    assert len(asked) == 2


@pytest.mark.parametrize(("status", "sentence"), [("paused", "budget"), ("cancelled", "cancelled")])
def test_a_job_that_stops_ends_the_wait(status: str, sentence: str) -> None:
    state = {
        "id": 4, "status": status, "progress": {"percent": 3, "calls": 1, "cost": "0"}, "advice": "",
        "paused_because": "budget" if status == "paused" else "", "paused_detail": "",
    }  # fmt: skip
    client, _asked = scripted(*[httpx2.Response(200, json=state)] * 2)
    with pytest.raises(errors.JobStopped, match=sentence):
        client.run(4).wait()


def test_a_release_that_arrives_changed_is_an_error() -> None:
    frozen, lines = {"sha256": "0" * 64}, b'{"a": 1}\n{"a": 2}\n'
    client, asked = scripted(httpx2.Response(200, json=frozen), httpx2.Response(200, content=lines))
    stream = client.samples("a/b", 1)
    assert [next(stream), next(stream)] == [{"a": 1}, {"a": 2}]
    with pytest.raises(errors.Damaged):
        next(stream)
    assert asked[0].url.raw_path == b"/mhb/api/v1/releases/a%2Fb/1/"


def test_lines_end_only_at_line_feeds_and_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    lines: Callable[..., Iterator[bytes]] = module._lines
    text = '{"a": "x\u2028y\x85z"}\n{"b": 1}'.encode()
    chunks = [text[:10], text[10:11], text[11:]]
    assert b"".join(lines(httpx2.Response(200, content=iter(chunks)))) == text
    assert [*lines(httpx2.Response(200, content=iter(chunks)))] == [*text.splitlines(keepends=True)]
    monkeypatch.setattr(module, "LONGEST_LINE", 5)
    with pytest.raises(errors.Damaged):
        list(lines(httpx2.Response(200, content=iter(chunks))))


def test_a_token_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MHB_TOKEN", raising=False)
    with pytest.raises(errors.MHBError, match="MHB_TOKEN"):
        mhb_client.Client("https://x.example")
