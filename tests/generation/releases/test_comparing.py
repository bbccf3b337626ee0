"""Two releases are compared sample by sample; released samples are searched; the card is a page."""

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from generation import errors
from generation.models import Release, ReleasedSample
from generation.releases import comparing
from review.models import User
from tests.engine import Manage, bare_release

pytestmark = [pytest.mark.django_db, pytest.mark.both]


@pytest.fixture
def first() -> Release:
    return bare_release(*[("dialogue", [["A1"]])] * 5)


@pytest.fixture
def second(first: Release) -> Release:
    """The first sample is removed, the second reworded, the third stricter, the fourth held out."""
    fields = {field.attname: getattr(first, field.attname) for field in Release._meta.concrete_fields}
    release = Release.objects.create(**{**fields, "id": None, "version": 2, "held_out_count": 1})
    _gone, reworded, stricter, hidden, same = first.samples.order_by("pk")
    new = ReleasedSample(version=same.version, task="dialogue", exported=same.exported, key="new")
    rows = [
        (reworded, "Says this.", ""),
        (stricter, "Says 1.", "severe"),
        (hidden, "Says what nobody may read.", ""),
        (same, "Says 1.", ""),
    ]
    for position, (row, criterion, severity) in enumerate([*rows, (new, "Says 1.", "")]):
        copy = ReleasedSample.objects.create(
            release=release,
            position=position,
            version=row.version,
            key=row.key,
            task=row.task,
            exported={**row.exported, "canary": "another"},
            split="held-out" if row is hidden else "public",
        )
        copy.rubrics.create(key="R1", criterion=criterion, traps=["A1"], severity=severity)
    return release


def keys(first: Release) -> list[str]:
    return list(first.samples.order_by("pk").values_list("key", flat=True))


def test_a_comparison_names_what_was_added_removed_reworded_and_re_released(first: Release, second: Release) -> None:
    gone, reworded, stricter, hidden, _same = keys(first)
    difference = comparing.compare(first, second, reader=None)
    assert difference.counts == {"added": 1, "removed": 2, "reworded": 1, "re-released": 1, "unchanged": 1}
    found = {
        row.key: (row.change, [(each.name, each.before, each.after) for each in row.fields])
        for row in difference.samples()
    }
    assert found == {
        reworded: ("reworded", [("R1", "Says 1.", "Says this.")]),
        stricter: ("re-released", [("R1.severity", "", "severe")]),
        "new": ("added", []),
        gone: ("removed", []),
        hidden: ("removed", []),
    }
    assert [row.key for row in difference.samples("removed", 1, 5)] == [hidden]
    back = comparing.compare(second, first, reader=None)
    assert back.counts == {**difference.counts, "added": 2, "removed": 1}


def test_releases_of_two_benchmarks_are_not_compared(first: Release) -> None:
    with pytest.raises(errors.OtherBenchmarks):
        comparing.compare(first, Release(benchmark="medhal"), reader=None)


def test_page_api_and_command_show_the_same_comparison(
    first: Release, second: Release, rui: User, client: Client, manage: Manage
) -> None:
    client.force_login(rui)
    reworded = keys(first)[1]
    page = client.get(reverse("generation:release-changes", args=["bare", 2])).content.decode()
    assert "<del>1</del><ins>this</ins>." in page
    assert reverse("generation:release-sample", args=["bare", 1, keys(first)[0]]) in page, "it is read where it is"
    only = client.get(reverse("generation:release-changes", args=["bare", 2]), {"change": "reworded"})
    assert [row.key for row in only.context["rows"]] == [reworded]
    api = reverse("api:release-changes", args=["bare", 2])
    answer: dict[str, Any] = client.get(api, {"since": "bare@1", "change": "reworded"}).json()
    assert answer["counts"]["removed"] == 2, "held-out samples are for admins"
    field = {"name": "R1", "before": "Says 1.", "after": "Says this."}
    assert answer["samples"] == [{"key": reworded, "task": "dialogue", "change": "reworded", "fields": [field]}]
    printed = manage.json("compare_releases", "bare@1", "bare", "--change", "reworded")
    assert printed["samples"][:1] == answer["samples"]
    assert "no release" in manage.refusal("compare_releases", "bare@1", "bare@9")


def test_the_first_release_has_nothing_to_be_compared_with(first: Release, rui: User, client: Client) -> None:
    client.force_login(rui)
    page = client.get(reverse("generation:release-changes", args=["bare", 1]))
    assert "There is no other release" in page.content.decode()


def test_released_samples_are_searched_and_filtered(second: Release, adela: User, rui: User, client: Client) -> None:
    client.force_login(rui)
    page = reverse("generation:release-samples", args=["bare", 2])

    def found(**query: str) -> list[str]:
        return [row.key for row in client.get(page, query).context["page"].rows]

    assert found(text="this") == [second.samples.order_by("pk")[0].key]
    assert found(text="new") == ["new"]
    hidden = second.samples.get(split="held-out").key
    assert hidden not in found(split="held-out")
    assert client.get(reverse("generation:release-sample", args=["bare", 2, hidden])).status_code == 404
    assert "Says 1." in client.get(reverse("generation:release-sample", args=["bare", 2, "new"])).content.decode()
    api = reverse("api:release-samples", args=["bare", 2])
    assert [row["key"] for row in client.get(api, {"text": "new"}).json()["results"]] == ["new"]
    first = reverse("api:release-samples", args=["bare", 1])
    assert [len(client.get(first, {"facet": f"subtype={code}"}).json()["results"]) for code in ("A1", "C9")] == [5, 0]
    client.force_login(adela)
    assert found(split="held-out") == [hidden]


def test_the_data_card_is_a_page_without_the_html_of_its_texts(first: Release, rui: User, client: Client) -> None:
    fields = {field.attname: getattr(first, field.attname) for field in Release._meta.concrete_fields}
    card = {"motivation": "<script>alert(1)</script> [away](javascript:alert(1))"}
    Release.objects.create(**{**fields, "id": None, "version": 2, "about": {"card": card}})
    client.force_login(rui)
    page = client.get(reverse("generation:release-card", args=["bare", 2])).content.decode()
    assert "&lt;script&gt;alert(1)" in page
    assert "<script>alert" not in page
    assert 'href="javascript' not in page
    assert "<h3>About this data set</h3>" in page
