"""The draw of a batch's records, which is the same on every database."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from hypothesis import given
from hypothesis import strategies as st

from generation import errors
from generation.batches import draw, launch
from generation.batches.launch import BatchSettings
from generation.models import Batch, Draft, Source, SourceRecord
from tests.engine import Manage, conversations_file, endpoint, import_file

pytestmark = [pytest.mark.django_db, pytest.mark.both]

THEMES = ["global health"] * 12 + ["emergencies"] * 6 + ["hedging"] * 3


@pytest.fixture
def source(tmp_path: Path, db: None) -> Source:
    """21 conversations on three themes; one in three has no language."""
    conversations = import_file(conversations_file(tmp_path / "own.jsonl", len(THEMES)))
    for record, theme in zip(SourceRecord.objects.order_by("pk"), THEMES, strict=True):
        record.content["tags"] = [f"theme:{theme}", "hard"]
        record.language = "en" if record.pk % 3 else ""
        record.save()
    return conversations


def chosen_ids(
    source: Source, mode: str = "", seed: int = 0, limit: int | None = None, **where: list[str]
) -> list[str]:
    """External ids of the records that a launch would take, in order."""
    settings = BatchSettings(
        benchmark="mhb", source=source, roles={}, limit=limit, draw=mode, seed=seed or 0, where=where or {}
    )
    by_pk = dict(SourceRecord.objects.values_list("pk", "external_id"))
    return [by_pk[pk] for pk, _kind in launch.choose_records(settings).records]


def theme_counts(source: Source, ids: list[str]) -> Counter[str]:
    records = SourceRecord.objects.filter(source=source, external_id__in=ids)
    return Counter(record.content["tags"][0].partition(":")[2] for record in records)


def test_a_random_draw_depends_only_on_seed_and_ids(source: Source) -> None:
    ids = list(SourceRecord.objects.order_by("pk").values_list("external_id", flat=True))
    drawn = chosen_ids(source, "random", 7, 10)
    assert drawn == sorted(ids, key=lambda name: draw.rank(7, name))[:10]
    assert drawn == chosen_ids(source, "random", 7)[:10]
    assert drawn != chosen_ids(source, "random", 8, 10)
    assert chosen_ids(source, limit=10) == ids[:10]


def test_each_stratum_gets_its_share(source: Source) -> None:
    drawn = chosen_ids(source, "stratified:theme", 7, 10)
    # 12, 6 and 3 of 21: 5.71, 2.86 and 1.43 of ten.
    assert theme_counts(source, drawn) == {"global health": 6, "emergencies": 3, "hedging": 1}
    assert drawn == chosen_ids(source, "stratified:theme", 7, 10)
    assert sorted(chosen_ids(source, "stratified:theme", 7)) == sorted(chosen_ids(source))
    settings = BatchSettings(benchmark="mhb", source=source, roles={}, limit=10, draw="stratified:theme", seed=7)
    summary = launch.choose_records(settings).summary
    assert summary["strata"] == {"emergencies": [6, 3], "global health": [12, 6], "hedging": [3, 1]}
    assert (summary["available"], summary["drawn"], summary["seed"]) == (21, 10, 7)


@given(st.dictionaries(st.text(max_size=3), st.integers(1, 50), min_size=1, max_size=8), st.integers(0, 400))
def test_no_stratum_gives_more_records_than_it_has(available: dict[str, int], limit: int) -> None:
    quotas = draw._allocate(available, limit)
    total = sum(available.values())
    assert sum(quotas.values()) == min(limit, total)
    for name, quota in quotas.items():
        share = available[name] * min(limit, total) / total
        assert quota <= available[name]
        assert abs(quota - share) < 1


def test_records_are_filtered_by_their_fields(source: Source) -> None:
    assert len(chosen_ids(source, theme=["hedging", "emergencies"])) == 9
    assert theme_counts(source, chosen_ids(source, "random", 1, 2, theme=["hedging"])) == {"hedging": 2}
    unknown = SourceRecord.objects.filter(language="", source=source).values_list("external_id", flat=True)
    assert chosen_ids(source, language=["unknown"]) == list(unknown.order_by("pk"))
    assert len(chosen_ids(source, length=["short"], task=["dialogue"])) == 21
    with pytest.raises(errors.WrongDraw, match="existing values: theme: global health, emergencies, hedging"):
        chosen_ids(source, theme=["no such"])


def test_unknown_fields_and_modes_are_refused(source: Source) -> None:
    with pytest.raises(
        errors.WrongDraw, match="unknown field 'topic'; known: task, language, length, specialty, theme"
    ):
        chosen_ids(source, "stratified:topic")
    with pytest.raises(errors.WrongDraw, match="unknown field 'topic'"):
        chosen_ids(source, topic=["x"])
    for mode in ("last", "stratified", "stratified:", "random:theme"):
        with pytest.raises(errors.WrongDraw):
            draw.parse_draw(mode, 0, {})


def test_a_tag_may_be_named_like_a_lookup(source: Source) -> None:
    record = SourceRecord.objects.order_by("pk").first()
    assert record is not None
    record.content["tags"] = ["a__contains:x"]
    record.save()
    assert chosen_ids(source, "random", 0, None, a__contains=["x"]) == [record.external_id]


def test_a_second_draw_continues_where_the_first_ended(source: Source, models: str) -> None:
    generator = endpoint(models)
    order = chosen_ids(source, "random", 3)
    for limit, expected in ((8, order[:8]), (None, order[8:])):
        settings = BatchSettings(
            benchmark="mhb",
            source=source,
            roles={"generator": generator},
            limit=limit,
            draw="random",
            seed=3,
            checks=(),
        )
        drafts = Draft.objects.filter(batch=launch.launch_batch(settings)).order_by("pk")
        assert list(drafts.values_list("record__external_id", flat=True)) == expected


def test_a_stratified_draw_from_the_shell(source: Source, models: str, manage: Manage) -> None:
    endpoint(models)
    code, out, _err = manage(
        "generate", "--benchmark", "mhb", "--source", source.name, "--limit", "7", "--generator", "sim-generator",
        "--role", "examiner=sim-generator", "--one-model",
        "--draw", "stratified:theme", "--seed", "5", "--where", "theme=hedging", "--where", "theme=emergencies",
        "--where", "length=short", "--yes", "--json",
    )  # fmt: skip
    assert code == 0
    output = json.loads(out)
    assert output["draw"]["strata"] == {"emergencies": [6, 5], "hedging": [3, 2]}
    assert output["draw"]["where"] == {"length": ["short"], "theme": ["hedging", "emergencies"]}
    assert Batch.objects.get(pk=output["batch"]).draw == output["draw"]


def test_a_random_draw_over_the_api(source: Source, models: str, admin_client: Client) -> None:
    endpoint(models)
    body: dict[str, Any] = {
        "benchmark": "mhb",
        "source": source.name,
        "roles": {"generator": "sim-generator", "examiner": "sim-generator"},
        "one_model": True,
        "limit": 4,
        "draw": "random",
        "seed": 9,
        "where": {"theme": ["global health"]},
        "confirmed": True,
    }
    response = admin_client.post("/api/v1/batches/", json.dumps(body), "application/json")
    assert response.status_code == 202, response.content
    assert response.json()["draw"] == {
        "mode": "random", "field": "", "seed": 9, "where": {"theme": ["global health"]}, "available": 12, "drawn": 4,
        "strata": {},
    }  # fmt: skip
    wrong = admin_client.post("/api/v1/batches/estimate/", json.dumps(body | {"draw": "last"}), "application/json")
    assert wrong.status_code == 422
    assert "first, random, stratified:FIELD" in wrong.json()["detail"]


def test_a_stratified_draw_on_the_page(source: Source, models: str, admin_client: Client) -> None:
    endpoint(models)
    form = {
        "benchmark": "mhb",
        "source": source.name,
        "role-generator": "sim-generator",
        "role-examiner": "sim-generator",
        "one_model": "on",
        "limit": "6",
        "draw": "stratified",
        "stratify_by": "theme",
        "seed": "3",
        "where.field": ["theme", "theme", ""],
        "where.value": ["hedging", "emergencies", ""],
    }
    new = reverse("generation:batch-new")
    page = admin_client.get(new, {"benchmark": "mhb", "source": source.name}).content.decode()
    assert page.count('name="where.field"') == 1
    assert '<option value="emergencies" label="theme">' in page
    more = admin_client.post(new, form | {"limit": "many", "add-row": "where"})
    assert (more.status_code, more.content.decode().count('name="where.field"')) == (200, 3)
    wrong = admin_client.post(new, form | {"where.value": ["", "", ""]})
    assert wrong.status_code == 422
    assert "row 1, Value" in wrong.content.decode()
    estimate = admin_client.post(new, form).content.decode()
    assert 'name="stratify_by" value="theme"' in estimate
    assert estimate.count('name="where.value"') == 3
    assert admin_client.post(new, form | {"confirmed": "on", "budget_calls": "9"}).status_code == 302
    assert Batch.objects.get().draw["where"] == {"theme": ["hedging", "emergencies"]}
    shown = admin_client.get(reverse("generation:batch", args=[Batch.objects.get().pk])).content.decode()
    assert "6 of 9 available" in shown
    assert "drawn at random in proportion to theme, seed 3" in shown
    assert "theme = hedging | emergencies" in shown
