"""Prompt sets of a team's own: versions, faults in words, batches and runs that send them."""

import json
from pathlib import Path

import pytest
from aiohttp import web
from django.db import DatabaseError, transaction
from django.test import Client
from django.urls import reverse

from evaluation.interchange import bundle, rerunning
from evaluation.interchange.programs import verify_run
from evaluation.playground.services import PlaygroundSettings, prepare
from evaluation.runs import services as runs_services
from evaluation.runs import work
from evaluation.runs.settings import RunSettings
from generation import errors
from generation.batches import estimate, launch
from generation.batches import services as batches_services
from generation.batches.launch import BatchSettings
from generation.llm.simulator.server import run_in_background
from generation.models import Call, PromptSet
from generation.prompts import queries, services
from review.models import PersonEvent, User
from tests.engine import Manage, bare_release, conversations_file, endpoint, import_file
from tests.engine import manage as manage
from tests.generation.llm.helpers import app_of, completion

pytestmark = pytest.mark.django_db
MET = '{"explanation": "It does.", "criteria_met": true}'


def changed(file: str, before: str, after: str, *, of: str = "default") -> dict[str, str]:
    text = queries.shown_set("mhb", of).texts[file]
    assert before in text
    return {file: text.replace(before, after, 1)}


def test_saving_makes_versions_that_nobody_can_change_and_an_event(adela: User) -> None:
    texts = changed("judge", "=== user", "=== user\nWard wording.")
    first = services.save("mhb", "ward", texts, actor=adela, note="PlaygroundSettings for by the ward.")
    assert (str(first), first.based_on) == ("ward@1", "")
    assert set(first.texts) == set(queries.released_texts("mhb")[""]), "a version holds every file"
    assert services.save("mhb", "ward", texts, based_on="ward", actor=adela) == first, "nothing changed"
    again = changed("judge", "Ward wording.", "Shorter.", of="ward")
    second = services.save("mhb", "ward", again, based_on="ward@1", actor=adela)
    assert (str(second), second.based_on) == ("ward@2", "ward@1")
    with pytest.raises(errors.StalePrompts):
        services.save("mhb", "ward", changed("judge", "Ward", "Other", of="ward@1"), based_on="ward@1", actor=adela)
    with transaction.atomic(), pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
        PromptSet.objects.filter(pk=first.pk).update(texts={})
    events = PersonEvent.objects.filter(kind=PersonEvent.Kind.PROMPTS).order_by("pk")
    assert [event.data["set"] for event in events] == ["ward@1", "ward@2"]
    assert events[0].data["digest"] == first.digest == queries.digest_of(first.texts)


@pytest.mark.parametrize(
    ("file", "text", "words"),
    [
        ("judge", "=== user\n$nothing", "first line must be 'version: N'"),
        ("judge", "version:\n=== user\nHello", "first line must be 'version: N'"),
        ("judge", "version: 1\nHello", "no part"),
        ("judge", "version: 1\n=== robot\nHello", "unknown part 'robot'"),
        ("judge", "version: 1\n=== assistant\nHello", "last part is a reply"),
        ("judge", "version: 1\n=== user\n$response ${patient.__class__}", "'\\$' without a name"),
        ("judge", "version: 1\n=== user\nIt costs 5 $", "'\\$' without a name"),
        ("judge", "version: 1\n=== user\n$secret", r"unknown placeholder \$secret; known: .*\$response"),
        ("judge", "version: 1\n=== user\nJudge it.", r"without the placeholder .*\$response"),
        ("judge", "version: 1\n=== user\n" + "x" * 50_000, "longer than 50000 characters"),
        ("judge", "version: 1\n=== user\nNUL \0", "cannot be stored"),
        ("jugde", "version: 1\n=== user\nHello", "no prompt file of this benchmark; known: .*judge.md"),
    ],
)
def test_a_faulty_prompt_is_refused_by_file_and_reason(file: str, text: str, words: str) -> None:
    with pytest.raises(errors.PromptsFaulty, match=rf"{file}\.md: .*{words}"):
        services.save("mhb", "ward", {file: text})
    assert not PromptSet.objects.exists()


@pytest.mark.parametrize("name", ["", "v1", "default", "compare", "Ward", "a@1", "a/b", "x" * 41])
def test_names_of_released_sets_and_addresses_are_refused(name: str) -> None:
    with pytest.raises(errors.PromptsFaulty, match="cannot be the name"):
        services.save("mhb", name, {})


def test_a_batch_sends_exactly_the_version_that_was_chosen(tmp_path: Path) -> None:
    """Also after a newer version was saved; estimate, ledger and sample name it."""
    source = import_file(conversations_file(tmp_path / "own.jsonl", 1))
    seen: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        seen.append(json.dumps(await request.json()))
        return web.json_response(completion("no JSON"))

    services.save("mhb", "ward", changed("inject_dialogue", "=== user", "=== user\nWard wording."))
    with run_in_background(app_of(answer)) as url:
        settings = BatchSettings(
            benchmark="mhb", source=source, roles={"generator": endpoint(url, "gen")}, prompts="ward", checks=()
        )
        lines = estimate.estimate_batch(settings).lines
        assert any(line.prompt.startswith("mhb/ward@1/inject_dialogue@") for line in lines)
        batch = launch.launch_batch(settings)
        services.save("mhb", "ward", changed("inject_dialogue", "=== user", "=== user\nNewer."))
        batches_services.work_on_batch(batch.pk)
    batch.refresh_from_db()
    assert (batch.prompts, batch.prompts_sha256) == ("ward@1", PromptSet.objects.get(number=1).digest)
    assert seen
    assert all("Ward wording." in body for body in seen)
    assert all(call.prompt.startswith("mhb/ward@1/inject_dialogue@") for call in Call.objects.filter(job=batch))
    assert launch.repeat_settings(batch, {})["prompts"] == "ward@1"
    with pytest.raises(errors.UnknownPrompts, match=r"ward@3.*known: v1, v2, v3, ward@2, ward@1"):
        estimate.estimate_batch(settings.model_copy(update={"prompts": "ward@3"}))


def test_a_run_judges_with_the_chosen_wording_and_names_it_everywhere(tmp_path: Path, manage: Manage) -> None:
    release = bare_release(("dialogue", [["A1"]]))
    stored = services.save("mhb", "ward", changed("judge", "=== user", "=== user\nWard wording."))
    seen: list[str] = []

    async def agree(request: web.Request) -> web.Response:
        seen.append(json.dumps(await request.json()))
        return web.json_response(completion(MET))

    with run_in_background(app_of(agree)) as url:
        tested, judge = endpoint(url, "m"), endpoint(url, "judge")
        run = runs_services.launch_run(RunSettings(release=release, endpoints=[tested], judge=judge, prompts="ward@1"))
        work.work_on_run(run.pk)
        usual = runs_services.launch_run(RunSettings(release=release, endpoints=[tested], judge=judge))
        work.work_on_run(usual.pk)
    assert ["Ward wording." in body for body in seen] == [False, True, False], "asked, judged; judged as usual"
    run.refresh_from_db()
    assert (run.prompts, run.prompts_sha256) == ("ward@1", stored.digest)
    judged = Call.objects.filter(job=run, prompt__contains="judge")
    assert {call.prompt.partition("@1")[0] for call in judged} == {"mhb/ward"}
    assert not Call.objects.filter(job=usual, prompt__contains="ward").exists(), "the next job asks as usual"
    assert runs_services.repeat_settings(run, {})["prompts"] == "ward@1"
    bundle.export_run(run, tmp_path)
    about, report = (json.loads((tmp_path / name).read_text()) for name in ("run.json", "report.json"))
    assert (about["settings"]["prompts"], about["settings"]["prompts_sha256"]) == ("ward@1", stored.digest)
    assert about["prompt_set"] == stored.texts
    assert report["prompts_sha256"] == stored.digest
    assert "Ward wording." in (tmp_path / "prompts.jsonl").read_text()
    assert verify_run.check(tmp_path)["faults"] == []
    repeat = rerunning.repeat_of(tmp_path)
    assert repeat.settings.prompts == "ward@1"


def test_a_paper_s_own_wording_is_loaded_from_a_folder(tmp_path: Path, manage: Manage) -> None:
    (tmp_path / "judge.md").write_text(
        queries.released_texts("mhb")[""]["judge"].replace("=== user", "=== user\nAs printed.")
    )
    loaded = manage.json("load_prompts", "mhb", tmp_path, "--name", "paper", "--note", "Table 3.")
    row = PromptSet.objects.get()
    assert (loaded["prompts"], loaded["digest"], row.note) == ("paper@1", row.digest, "Table 3.")
    (tmp_path / "notes.md").write_text("Not a prompt.")
    assert "notes.md: no prompt file of this benchmark" in manage.refusal(
        "load_prompts", "mhb", tmp_path, "--name", "paper"
    )
    assert "is no folder" in manage.refusal("load_prompts", "mhb", tmp_path / "none", "--name", "paper")


def test_pages_show_compare_and_edit_and_the_playground_tries_the_result(
    client: Client, adela: User, tmp_path: Path
) -> None:
    client.force_login(adela)
    edit = reverse("generation:prompts-edit", args=["mhb", "default"])
    texts = {f"text-{file}": text.replace("\n", "\r\n") for file, text in queries.released_texts("mhb")[""].items()}
    faulty = client.post(edit, {**texts, "name": "ward", "text-judge": "version: 1\r\n=== user\r\n$secret $response"})
    assert faulty.status_code == 422
    assert "unknown placeholder $secret" in faulty.content.decode()
    edited = {
        **texts,
        "name": "ward",
        "text-inject_dialogue": texts["text-inject_dialogue"].replace("=== user", "=== user\r\nWard."),
    }
    saved = client.post(edit, edited, follow=True).content.decode()
    assert "Ward." in saved
    stored = PromptSet.objects.get()
    released = queries.released_texts("mhb")[""]
    assert {file for file, text in stored.texts.items() if text != released[file]} == {"inject_dialogue"}
    compared = client.get(reverse("generation:prompts-compare", args=["mhb"]), {"a": "default", "b": "ward@1"})
    assert "<ins>Ward." in compared.content.decode()
    assert "judge.md" not in compared.content.decode(), "only files that differ"
    assert "ward@1" in client.get(reverse("generation:prompts")).content.decode()
    assert client.get(reverse("generation:prompt-set", args=["mhb", "ward@2"])).status_code == 404
    body = {"name": "ward", "texts": changed("judge", "=== user", "=== user\nShort.", of="ward"), "based_on": "ward@1"}
    answer = client.post(reverse("api:prompts", args=["mhb"]), body, content_type="application/json")
    assert (answer.status_code, answer.json()["name"], answer.json()["author"]) == (201, "ward@2", adela.username)
    listed = client.get(reverse("api:prompts", args=["mhb"])).json()
    assert [(each["name"], each["released"]) for each in listed][-2:] == [("ward@2", False), ("ward@1", False)]
    import_file(conversations_file(tmp_path / "own.jsonl", 1))
    prepared = prepare(PlaygroundSettings(what="step:mhb:inject", prompts="ward"))
    assert prepared.request.prompt.startswith("mhb/ward@2/inject_dialogue@")
    assert any("Ward." in message.text for message in prepared.request.messages)
    assert prepare(PlaygroundSettings(what="step:mhb:inject")).request.prompt.startswith("mhb/inject_dialogue@")
