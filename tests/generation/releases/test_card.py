"""The data card: what its makers say, kept from version to version, the same in every language."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.test import Client
from django.urls import reverse
from django.utils import translation

from generation import errors
from generation.models import Release
from generation.releases import data_card, export, queries, services
from generation.releases.freezing.composition import Composition
from review.models import User
from tests.benchmarks.medhal.statements import create_approved_samples, statement
from tests.conftest import PHYSICIANS, accounts_of
from tests.engine import Manage, make_release
from tests.populations import population

pytestmark = pytest.mark.django_db
CARD = {"funding": "Paid by nobody.", "pay": "Ten an hour.", "biases": "Adults only.", "citation": "We, 2026."}


@population
def first(folder: Path, models: str) -> Release:
    return make_release(folder, models, accounts_of(*PHYSICIANS), conversations=1)


def freeze(**card: str) -> Release:
    return services.freeze_release("own", benchmark="mhb", card=card)


def test_texts_are_on_the_card_and_the_next_version_keeps_them(first: Release, tmp_path: Path) -> None:
    assert "### Funding\n\nNot stated." in data_card.data_card(first)
    second = freeze(**CARD)
    card = data_card.data_card(second)
    assert "### Funding\n\nPaid by nobody." in card
    assert "### Raters' pay\n\nTen an hour." in card
    export.Export(second, "jsonl").write(tmp_path / "out")
    metadata = json.loads((tmp_path / "out" / "croissant.json").read_text())
    assert metadata["citeAs"].startswith("We, 2026. ")
    assert metadata["rai:dataBiases"] == ["Adults only."]
    with pytest.raises(errors.NothingNew):
        freeze(funding="")
    third = freeze(funding="-", ethics="No board was asked.")
    assert third.about["card"] == {name: CARD[name] for name in ("pay", "citation", "biases")} | {
        "ethics": "No board was asked."
    }
    with translation.override("zh-hans"):
        assert data_card.data_card(second) == card, "the same bytes for readers of every language"


def test_page_and_api_take_and_show_the_texts(first: Release, adela: User, client: Client) -> None:
    client.force_login(adela)
    page = client.get(reverse("generation:release-new")).content.decode()
    assert "For what purpose was this data set made, and by whom?" in page
    form = {"name": "own", "benchmark": "mhb", "card_funding": "Paid by nobody."}
    preview = client.post(reverse("generation:release-new"), form).content.decode()
    assert '<input type="hidden" name="card_funding" value="Paid by nobody."' in preview
    api = reverse("api:releases")
    body: dict[str, Any] = {"name": "own", "benchmark": "mhb", "card": {"motives": "None."}}
    assert client.post(api, body, content_type="application/json").status_code == 422
    answer = client.post(api, {**body, "card": {"pay": "Ten an hour."}}, content_type="application/json").json()
    services.run_freeze(answer["id"])
    assert client.get(reverse("api:release", args=["own", 2])).json()["card"] == {"pay": "Ten an hour."}
    shown = client.get(reverse("generation:release", args=["own", 2])).content.decode()
    assert "Ten an hour." in shown
    assert "not stated" in shown


def test_the_command_reads_the_texts_from_a_file(first: Release, manage: Manage, tmp_path: Path) -> None:
    path = tmp_path / "card.json"
    for text, reason in (("{", "a JSON object"), ("[]", "a JSON object"), ('{"motives": ""}', "'motives'; known")):
        path.write_text(text)
        refusal = manage.refusal("freeze_release", "own", "--benchmark", "mhb", "--card", path)
        assert str(path) in refusal
        assert reason in refusal
    path.write_text(json.dumps(CARD))
    manage.json("freeze_release", "own", "--benchmark", "mhb", "--card", path)
    assert queries.release("own").about["card"] == CARD


def test_hf_takes_releases_that_are_no_single_questions(tmp_path: Path) -> None:
    create_approved_samples([statement(number, factual=bool(number)) for number in range(2)])
    release = services.freeze_release("statements", benchmark="medhal", composition=Composition(with_unreviewed=True))
    funnel = queries.funnel_of(release)
    assert funnel is not None
    assert funnel.adds_up
    assert (
        "### By task and label\n\n| task | label | samples |\n|---|---|---:|\n| qa | factual | 1 |\n| qa | non-factual | 1 |"
        in (data_card.data_card(release))
    )
    assert "hf" in dict(export.fitting_formats(release))
    export.Export(release, "hf").write(tmp_path / "out")
    fields = yaml.safe_load((tmp_path / "out" / "README.md").read_text().split("---\n")[1])
    assert fields["configs"][0]["data_files"] == [{"split": "test", "path": "test.parquet"}]


def test_a_value_of_a_record_is_no_markup_of_the_card(first: Release) -> None:
    release = Release.objects.get(pk=first.pk)
    release.counts = {"theme": {"a | b\n# c ![d](https://e)": {"samples": 1, "rubrics": 1}}}
    assert r"| a \| b # c !\[d](https://e) | 1 | 1 |" in data_card.data_card(release)
