"""The playground: a prompt as it would be sent, and sent once; by page, API and command."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from evaluation import errors, tasks
from evaluation import registry as evaluation_registry
from evaluation.playground import services
from evaluation.playground.services import PlaygroundSettings
from evaluation.protocol import Decision
from evaluation.runs import services as runs_services
from evaluation.runs import work
from evaluation.runs.settings import RunSettings
from generation.endpoints import queries as endpoints_queries
from generation.engine import apart
from generation.llm.simulator.server import run_in_background
from generation.models import Call, Draft, EndpointDay, Release, SourceRecord, WorkerBeat
from generation.recipes import registry as recipes
from generation.recipes.recipe import Step, _no_questions
from review.labels import benchmark_label
from review.models import User
from review.rules.permissions import UserRole
from tests.engine import Manage, bare_release, conversations_file, endpoint, import_file, launch_batch
from tests.engine import manage as manage
from tests.generation.llm.helpers import app_of, completion
from tests.populations import population
from tests.review.factories import account

pytestmark = pytest.mark.django_db
MET = '{"explanation": "It does.", "criteria_met": true}'


@population
def release() -> Release:
    return bare_release(("dialogue", [["A1"]]))


def sending(page: Any, fields: Mapping[str, Any], **others: Any) -> dict[str, Any]:
    """What the page posts to send the prompt that it shows."""
    context = page.context
    turns = [text for _role, text, _images in context["turns"]]
    return {**fields, "turn": turns, "shown": context["subject"], "key": str(context["key"]), "send": "on", **others}


def whats() -> list[str]:
    return [what for _group, options in services.choices() for what, _label in options]


async def agree(_request: web.Request) -> web.Response:
    return web.json_response(completion(MET, reasoning_content="Let me see."))


def test_a_judge_is_tried_once_and_its_reply_is_in_no_result(release: Release, client: Client, adela: User) -> None:
    client.force_login(adela)
    page = reverse("evaluation:playground")
    with run_in_background(app_of(agree)) as url:
        judge = endpoint(url, "judge", price_in=100_000)
        fields = {"what": f"judge:{release.name}@{release.version}", "answer": "Drink water.", "endpoints": "judge"}
        shown = client.get(page, fields)
        assert "Drink water." in shown.content.decode()
        assert not Call.objects.exists(), "showing costs nothing"
        sent = client.post(page, sending(shown, fields), follow=True).content.decode()
        assert "Let me see." in sent
        assert "It does." in sent
        (call,) = Call.objects.all()
        assert (call.job_id, call.subject, float(call.cost)) == (None, f"playground:{adela.pk}", 0.7)
        assert EndpointDay.objects.get().calls == 1
        assert not endpoints_queries.has_answered(judge), "nothing refers to it yet, so its address may be corrected"
        run = runs_services.launch_run(RunSettings(release=release, endpoints=[endpoint(url, "m")], judge=judge))
        work.work_on_run(run.pk)
    run.refresh_from_db()
    assert (run.calls, run.hits) == (2, 0), "a reply of the playground is not reused"


def test_a_judge_that_copies_its_instructions_gives_no_verdict(release: Release) -> None:
    example = "Which words of the response decide, and how they meet or miss the criterion."

    async def copy(_request: web.Request) -> web.Response:
        return web.json_response(completion(json.dumps({"explanation": example, "criteria_met": True})))

    prepared = services.prepare(PlaygroundSettings(what=f"judge:{release.reference}", answer="Drink water."))
    with run_in_background(app_of(copy)) as url:
        tried = services.try_out(prepared, endpoint(url, "judge"))
    assert (tried.parsed, example in tried.text) == ({}, True)
    assert "repeats the instructions" in tried.error


def test_an_answer_is_read_as_a_run_reads_it(release: Release, monkeypatch: pytest.MonkeyPatch) -> None:
    """With long white space made short, in a process that is ended if it takes too long."""
    monkeypatch.setattr(apart, "SECONDS", 1)

    def read(_sample: Any, _rubric: Any, _variant: str, _about: Any, text: str) -> Decision:
        while "for ever" in text:
            pass
        verdict = "not_met"
        if len(text) < 10:
            verdict = "met"
        return Decision(verdict, "")

    own = replace(evaluation_registry.protocol("mhb"), read=read)
    monkeypatch.setattr(evaluation_registry, "protocol", lambda _name: own)
    texts = ["Yes." + "\n" * 5_000 + "No.", "for ever"]

    async def answer(_request: web.Request) -> web.Response:
        return web.json_response(completion(texts.pop(0)))

    prepared = services.prepare(PlaygroundSettings(what=f"model:{release.reference}:dialogue"))
    with run_in_background(app_of(answer)) as url:
        model = endpoint(url, "m")
        assert set(services.try_out(prepared, model).parsed.values()) == {"met"}
        assert "1 seconds" in services.try_out(prepared, model).error


def test_the_api_shows_and_sends_a_question_to_a_model_under_test(
    release: Release, client: Client, adela: User
) -> None:
    client.force_login(adela)
    what = f"model:{release.name}@{release.version}:dialogue"
    (choice,) = [value for value in whats() if value.startswith("model:")]
    with run_in_background(app_of(agree)) as url:
        endpoint(url, "m", temperature=0.5)
        body = {"what": choice, "endpoint": "m"}
        shown = client.post(reverse("api:playground"), body, content_type="application/json").json()
        assert shown["outcome"] is None
        assert (shown["sent"]["model"], shown["sent"]["temperature"], shown["role"]) == ("m", 0.5, "target")
        answer = client.post(reverse("api:playground"), {**body, "send": True}, content_type="application/json").json()
    assert (answer["outcome"]["text"], answer["outcome"]["error"]) == (MET, "")
    assert answer["outcome"]["tokens_in"] == 7
    refused = client.post(reverse("api:playground"), {**body, "what": what + "x"}, content_type="application/json")
    assert refused.status_code == 422


def test_a_step_is_shown_and_sent_by_the_command_with_what_the_parser_made_of_it(
    tmp_path: Path, manage: Manage
) -> None:
    source = import_file(conversations_file(tmp_path / "own.jsonl", 1))
    record = SourceRecord.objects.get(source=source)
    with run_in_background(app_of(agree)) as url:
        endpoint(url, "gen")
        arguments = ("playground", "step:mhb:inject", "--on", record.pk, "--endpoint", "gen")
        shown = manage.json(*arguments)
        body = json.loads(shown["body"])
        assert shown["role"] == "generator"
        assert body["response_format"]["type"] == "json_schema"
        assert not Call.objects.exists()
        code, out, _err = manage(*arguments, "--send", "--json")
    result = json.loads(out)
    assert (code, result["failed"], result["parsed"]) == (1, 1, {}), "the reply has not the form of this step"
    assert result["error"]
    assert Call.objects.get().subject == "playground:0"
    assert "step:mhb:inject" in manage.json("playground")["choices"]


@pytest.mark.parametrize("what", ["step:mhb:nothing", "step:mhb:inject", "nonsense", "judge:", "model:own"])
def test_what_cannot_be_tried_is_said(what: str) -> None:
    with pytest.raises(Exception, match=r"cannot be tried|no release|No record") as caught:
        services.prepare(PlaygroundSettings(what=what))
    assert getattr(caught.value, "status", None) in (404, 422)
    assert errors.NothingToTry.status == 422


OWN = {"what": "own", "text": "Say hello."}


def replies_page(client: Client, fields: dict[str, Any], **edited: Any) -> Any:
    """The page to which sending what was shown for these fields leads."""
    page = reverse("evaluation:playground")
    shown = client.post(page, fields)
    return client.post(page, sending(shown, fields, **edited), follow=True)


def test_an_edited_prompt_goes_to_two_models_and_is_not_paid_for_twice(client: Client, adela: User) -> None:
    client.force_login(adela)
    seen: list[Any] = []

    async def answer(request: web.Request) -> web.Response:
        body = await request.json()
        seen.append(body)
        return web.json_response(completion(f"I am {body['model']}. <b>"))

    with run_in_background(app_of(answer)) as url:
        endpoint(url, "one", temperature=0.25)
        endpoint(url, "two", default_sampling=True)
        fields = {**OWN, "endpoints": ["one", "two"]}
        page = reverse("evaluation:playground")
        posted = sending(client.post(page, fields), fields, turn=["", "Say goodbye."])
        first, again = client.post(page, posted), client.post(page, posted)
        shown = client.get(again["Location"]).content.decode()
    assert first["Location"] == again["Location"]
    assert [body["messages"] for body in seen] == [[{"role": "user", "content": "Say goodbye."}]] * 2
    assert [body.get("temperature") for body in seen] == [0.25, None]
    assert "I am one. &lt;b&gt;" in shown
    assert "I am two." in shown
    assert "Say goodbye." in shown, "what was sent can be edited further"
    assert {call.prompt for call in Call.objects.all()} == {"own (edited)"}
    colleague = account("eve", role=UserRole.ADMIN)
    client.force_login(colleague)
    assert "no longer kept" in client.get(first["Location"]).content.decode(), "replies are their sender's"


def test_a_reply_is_polled_until_its_worker_has_answered(
    client: Client, adela: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.force_login(adela)
    waiting: list[Any] = []
    monkeypatch.setattr("celery.app.task.Task.apply_async", lambda _task, arguments, **_: waiting.append(arguments))
    WorkerBeat.objects.create(name="w", seen_at=timezone.now(), runs_tasks=True)
    with run_in_background(app_of(agree)) as url:
        endpoint(url, "m")
        page = replies_page(client, {**OWN, "endpoints": "m"})
        address = page.request["PATH_INFO"]
        assert "every 2s" in page.content.decode()
        assert not Call.objects.exists()
        tasks.try_prompt.run(*waiting[0])
        tasks.try_prompt.run(*waiting[0])  # as a broker delivers what a killed worker held
    polled = client.get(address, headers={"HX-Request": "true"}).content.decode()
    assert "It does." in polled
    assert "every 2s" not in polled
    assert "<html" not in polled
    assert Call.objects.count() == 1


def test_a_provider_that_fails_is_a_sentence_beside_the_one_that_answers(client: Client, adela: User) -> None:
    client.force_login(adela)

    async def fail(_request: web.Request) -> web.Response:
        return web.json_response({"error": {"message": "no such model"}}, status=404)

    with run_in_background(app_of(agree)) as good, run_in_background(app_of(fail)) as bad:
        endpoint(good, "good")
        endpoint(bad, "bad")
        shown = replies_page(client, {**OWN, "endpoints": ["good", "bad"]}).content.decode()
    assert "It does." in shown
    assert "no such model" in shown
    assert "Traceback" not in shown


@pytest.mark.parametrize(
    ("posted", "said"),
    [
        ({"endpoints": []}, "Choose at least one endpoint."),
        ({"endpoints": ["a", "b", "c", "d"]}, "Choose at most three endpoints."),
        ({"turn": ["", "  "]}, "The prompt is empty."),
        ({"turn": ["one"]}, "The prompt has 2 turns now."),
        ({"text": "Something else."}, "You changed what to try."),
        ({"temperature": "3"}, "less than or equal to 2"),
    ],
)
def test_what_cannot_be_sent_is_said_and_keeps_what_was_typed(
    client: Client, adela: User, posted: dict[str, Any], said: str
) -> None:
    client.force_login(adela)
    for name in "abcd":
        endpoint("http://localhost:9/v1", name)
    fields = {**OWN, "endpoints": ["a"]}
    page = reverse("evaluation:playground")
    answer = client.post(page, sending(client.post(page, fields), fields, **posted))
    assert answer.status_code == 422
    assert said in answer.content.decode()
    assert posted.get("text", "Say hello.") in answer.content.decode()
    assert not Call.objects.exists()


@pytest.mark.parametrize("refused", [{"endpoints": []}, {"temperature": "3"}])
def test_an_edited_prompt_that_is_not_sent_can_be_edited_further(
    client: Client, adela: User, refused: dict[str, Any]
) -> None:
    client.force_login(adela)
    endpoint("http://localhost:9/v1", "a")
    answer = replies_page(client, {**OWN, "endpoints": ["a"]}, turn=["", "Say goodbye."], **refused)
    assert answer.status_code == 422
    assert [text for _role, text, _images in answer.context["turns"]] == ["", "Say goodbye."]


@pytest.mark.parametrize(
    ("what", "text", "sent"),
    [
        ("step:mhb:inject", "A man of 54 has had chest pain since the morning.", "chest pain"),
        ("step:mhb:inject", "Patient: My head hurts.\nDoctor: Since when?", "Since when?"),
        ("step:medhallu:try_1", '{"question": "Does it help?", "answer": "Yes.", "context": "It did."}', "It did."),
    ],
)
def test_a_step_is_tried_on_a_typed_text_before_anything_is_imported(what: str, text: str, sent: str) -> None:
    prepared = services.prepare(PlaygroundSettings(what=what, text=text))
    assert sent in "".join(message.text for message in prepared.request.messages)
    assert prepared.on == ""


def test_a_typed_text_of_a_kind_that_the_benchmark_does_not_take_is_said() -> None:
    with pytest.raises(errors.NothingToTry, match=r"kinds: vqa, vqa-trace"):
        services.prepare(PlaygroundSettings(what="step:clinhallu:trace_1", text="A text."))


def test_words_find_records_and_drafts_to_choose_from(client: Client, adela: User, tmp_path: Path) -> None:
    client.force_login(adela)
    source = import_file(conversations_file(tmp_path / "own.jsonl", 3))
    first, second, third = SourceRecord.objects.filter(source=source).order_by("pk")
    SourceRecord.objects.filter(pk__in=[first.pk, second.pk]).update(title="A cough at night")
    SourceRecord.objects.filter(pk=third.pk).update(title="A rash")
    page, step = reverse("evaluation:playground"), "step:mhb:inject"
    assert services.prepare(PlaygroundSettings(what=step, on="RASH")).on == str(third.pk)
    several = client.post(page, {"what": step, "on": "cough"})
    assert [match.on for match in several.context["matches"]] == [str(first.pk), str(second.pk)]
    assert f'value="{second.pk}"' in several.content.decode()
    batch = launch_batch(source, endpoint("http://localhost:9/v1"))
    draft = Draft.objects.get(batch=batch, record=third)
    found = client.post(page, {"what": step, "on": "rash"}).context["matches"]
    assert [match.on for match in found] == [str(third.pk), f"draft:{draft.pk}"]
    chosen = client.post(page, {"what": step, "on": ["rash", f"draft:{draft.pk}"]})
    assert chosen.context["prepared"].on == f"draft:{draft.pk}"
    nothing = client.post(page, {"what": step, "on": "zebra"})
    assert (nothing.status_code, "nothing matches" in nothing.content.decode()) == (422, True)


@pytest.mark.parametrize("temperature", [None, 0.9])
def test_it_shows_and_sends_the_temperature_of_a_run(
    release: Release, client: Client, adela: User, temperature: float | None
) -> None:
    client.force_login(adela)
    bodies: list[Any] = []

    async def answer(request: web.Request) -> web.Response:
        bodies.append(await request.json())
        return web.json_response(completion(MET))

    with run_in_background(app_of(answer)) as url:
        judge, target = endpoint(url, "judge", temperature=temperature), endpoint(url, "m", temperature=temperature)
        for what, name in ((f"judge:{release.reference}", "judge"), (f"model:{release.reference}:dialogue", "m")):
            shown = replies_page(client, {"what": what, "answer": "Drink water.", "endpoints": name})
            assert shown.context["temperatures"] == [(name, bodies[-1].get("temperature"))]
        run = runs_services.launch_run(RunSettings(release=release, endpoints=[target], judge=judge))
        work.work_on_run(run.pk)
    tried, in_run = bodies[:2], bodies[2:]
    assert {body["model"]: body.get("temperature") for body in tried} == {
        body["model"]: body.get("temperature") for body in in_run
    }


def test_prompt_sets_are_chosen_by_name_with_their_benchmarks(client: Client, adela: User) -> None:
    offered = dict(services.prompt_choices())
    for benchmark in recipes.names():
        for name in recipes.recipe(benchmark).prompt_sets:
            assert benchmark_label(benchmark) in offered[name]
    client.force_login(adela)
    refused = client.post(reverse("evaluation:playground"), {"what": "own", "text": "Hello", "prompts": "unknown"})
    assert list(refused.context["form"].errors) == ["prompts"]


def test_every_step_that_asks_a_model_can_be_chosen_by_a_label() -> None:
    for benchmark in recipes.names():
        recipe = recipes.recipe(benchmark)
        steps = [step for step in recipe.steps if isinstance(step, Step)]
        assert recipe.step_labels.keys() <= {step.name for step in steps}
        asking = {step.name for step in steps if step.asks is not _no_questions}
        left_out = {name for name in asking - recipe.step_labels.keys() if not name[-1].isdigit()}
        assert not left_out, "only repetitions of a step are left out"


def test_statements_do_not_grow_with_records_and_drafts(client: Client, adela: User, tmp_path: Path) -> None:
    client.force_login(adela)
    page, counts = reverse("evaluation:playground"), []
    for n in (2, 40):
        source = import_file(conversations_file(tmp_path / f"own{n}.jsonl", n), name=f"own{n}")
        launch_batch(source, endpoint("http://localhost:9/v1", f"e{n}"))
        with CaptureQueriesContext(connection) as captured:
            client.post(page, {"what": "step:mhb:inject", "on": "e"})
        counts.append(len(captured))
    assert counts[1] <= counts[0]
