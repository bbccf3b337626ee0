"""After approval: a sample is reported or withdrawn, leaves the next release, and the frozen ones say so and do not change."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

import pytest
from django.db import DatabaseError, transaction
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from generation import errors
from generation.models import Erratum, Release, Sample, SampleVersion
from generation.releases import data_card, export, services
from generation.releases.freezing.composition import Composition
from generation.samples import errata
from review.errors import NotAllowed, NotYours
from review.models import Case, Review, User
from tests.conftest import PHYSICIANS, cast
from tests.engine import Manage, approved, conversations_file, endpoint, generated, imported
from tests.populations import population
from tests.review.approve import approval
from tests.review.factories import account, say

pytestmark = [pytest.mark.django_db, pytest.mark.both]


@population
def three(folder: Path, models: str) -> list[Sample]:
    return approved(imported(conversations_file(folder / "own.jsonl", 3)), models, cast(*PHYSICIANS))


@pytest.fixture
def zoe() -> User:
    """A physician who has reviewed nothing."""
    return account("zoe")


@pytest.fixture
def release(three: list[Sample]) -> Release:
    return services.freeze_release("own", benchmark="mhb")


def test_a_withdrawn_sample_leaves_the_next_release(
    release: Release, three: list[Sample], adela: User, tmp_path: Path
) -> None:
    export.export_release(release, "jsonl", tmp_path / "before")
    errata.withdraw(three[0].pk, actor=adela, reason="The drug | exists\nafter all.")
    three[0].refresh_from_db()
    assert (three[0].status, three[0].versions.get().status) == ("withdrawn", "withdrawn")
    later = services.freeze_release("own", benchmark="mhb")
    assert (later.samples_count, later.excluded) == (2, {"withdrawn": 1})
    assert list(errata.errata_of(later)) == []
    [told] = errata.errata_of(release)
    assert (told.sample, told.kind) == (three[0], "withdrawn")
    card = data_card.data_card(release)
    assert f"| {three[0].key} |" in card
    assert "| withdrawn | The drug \\| exists after all. |" in card
    assert "## Errata" not in data_card.data_card(later)
    export.export_release(release, "jsonl", tmp_path / "after")
    assert hashlib.sha256((tmp_path / "after/samples.jsonl").read_bytes()).hexdigest() == release.sha256, (
        "nothing frozen changes"
    )
    before, after = ({path.name: path.read_bytes() for path in (tmp_path / at).iterdir()} for at in ("before", "after"))
    changed = {name for name in after if before[name] != after[name]}
    assert changed == {"DATACARD.md", "croissant.json", "manifest.json", "SHA256SUMS"}, "as the page of a release says"
    assert release.samples.count() == 3
    with pytest.raises(errors.NotApproved):
        errata.withdraw(three[0].pk, actor=adela, reason="Again.")


def test_a_reported_sample_waits_for_an_admin(release: Release, three: list[Sample], rui: User, adela: User) -> None:
    errata.report(three[1].pk, actor=rui, reason="I think that it is true.")
    preview = services.preview("own", benchmark="mhb")
    assert (preview.samples, preview.excluded) == (2, {"reported": 1})
    card = data_card.data_card(release)
    assert "| reported | not yet decided |" in card
    assert "I think" not in card, "what anybody wrote is not published"
    with pytest.raises(NotAllowed):
        errata.dismiss(three[1].pk, actor=rui, reason="No.")
    errata.dismiss(three[1].pk, actor=adela, reason="It is not.")
    assert services.preview("own", benchmark="mhb").samples == 3
    assert list(errata.errata_of(release)) == []
    assert [row.kind for row in errata.history(three[1])] == ["reported", "dismissed"]
    with pytest.raises(errors.NotReported):
        errata.dismiss(three[1].pk, actor=adela, reason="Again.")


def test_who_may_report(three: list[Sample], rui: User, zoe: User, physicians: Sequence[User]) -> None:
    with pytest.raises(errors.UnknownSample):
        errata.report(three[0].pk, actor=rui, reason="Not released, so not read.")
    with pytest.raises(errors.UnknownSample):
        errata.report(three[0].pk, actor=zoe, reason="Not mine.")
    own = Review.objects.filter(case__lineage=three[0].key).order_by("pk")[0]
    assert errata.reviewed_sample_id(own.physician, own.pk) == three[0].pk
    with pytest.raises(NotYours):
        errata.reviewed_sample_id(zoe, own.pk)
    errata.report(three[0].pk, actor=own.physician, reason="I was wrong.")
    services.freeze_release("own", benchmark="mhb")
    errata.report(three[1].pk, actor=rui, reason="Read in the release.")


def test_researchers_know_nothing_of_what_is_held_out(
    three: list[Sample], rui: User, adela: User, client: Client
) -> None:
    held = next(
        n
        for n in range(100)
        if 0 < sum(Composition(held_out=0.5, seed=n).holds_out("own", s.record.external_id) for s in three) < 3
    )
    release = services.freeze_release("own", benchmark="mhb", composition=Composition(held_out=0.5, seed=held))
    kept = release.samples.filter(split="held-out")[0]
    with pytest.raises(errors.UnknownSample):
        errata.report(kept.version.sample_id, actor=rui, reason="How would I know?")
    pages = reverse("generation:release-samples", args=["own", 1]), reverse("api:release-samples", args=["own", 1])
    for user, sees in ((rui, False), (adela, True)):
        client.force_login(user)
        assert all((kept.key in client.get(page).content.decode()) is sees for page in pages)
        chosen = client.get(f"{pages[0]}?selected={kept.pk}").context["chosen"]
        assert (chosen == kept) is sees


@pytest.mark.parametrize("act", [errata.report, errata.withdraw])
def test_a_reason_is_needed(act, three: list[Sample], adela: User) -> None:
    with pytest.raises(errors.ReasonMissing):
        act(three[0].pk, actor=adela, reason="  ")
    assert not Erratum.objects.exists()
    assert SampleVersion.objects.filter(status="approved").count() == 3


def test_errata_are_written_once(three: list[Sample], adela: User) -> None:
    errata.withdraw(three[0].pk, actor=adela, reason="Wrong.")
    with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
        Erratum.objects.update(reason="Right.")
    with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
        Erratum.objects.all().delete()


def test_the_pages_of_a_sample_show_its_evidence(three: list[Sample], adela: User, client: Client) -> None:
    looked = {"kind": "search", "reference": "PubMed", "section": "", "passage": "x < y", "read_on": "2026-03-01"}
    SampleVersion.objects.filter(sample=three[0]).update(citations=[looked])
    services.freeze_release("own", benchmark="mhb")
    client.force_login(adela)
    pages = reverse("generation:sample", args=[three[0].pk]), reverse("generation:release-samples", args=["own", 1])
    for page in pages:
        assert "Searched, not found: PubMed “x &lt; y” (2026-03-01)" in client.get(page).content.decode()


def test_pages_and_api(release: Release, three: list[Sample], rui: User, adela: User, client: Client) -> None:
    client.force_login(rui)
    reading = reverse("generation:release-samples", args=["own", 1])
    assert reverse("generation:sample-report", args=[three[0].pk]) in client.get(reading).content.decode()
    url = reverse("generation:sample-report", args=[three[0].pk])
    answer = client.post(url, {"reason": "It <b>exists</b>.", "back": str(release.pk)})
    assert answer["Location"].startswith(f"{reading}?selected=")
    shown = client.get(answer["Location"]).content.decode()
    assert "It &lt;b&gt;exists&lt;/b&gt;." in shown
    assert url not in shown, "it is reported already"
    body = {"reason": "Wrong."}
    said = client.post(reverse("api:sample-report", args=[three[1].pk]), body, content_type="application/json")
    assert (said.status_code, said.json()["kind"]) == (201, "reported")
    assert client.post(reverse("api:sample-withdraw", args=[three[1].pk]), body).status_code == 403
    client.force_login(adela)
    links = [f'href="{reverse("generation:sample", args=[sample.pk])}"' for sample in three]
    overview = client.get(reverse("review:overview")).content.decode()
    assert [link in overview for link in links] == [True, True, False], "admins see what waits for them"
    page = client.get(reverse("generation:sample", args=[three[0].pk])).content.decode()
    assert reverse("generation:sample-dismiss", args=[three[0].pk]) in page
    client.post(reverse("generation:sample-dismiss", args=[three[0].pk]), {"reason": "It does not."})
    client.post(reverse("generation:sample-withdraw", args=[three[0].pk]), {"reason": "Still."})
    overview = client.get(reverse("review:overview")).content.decode()
    assert [link in overview for link in links] == [False, True, False]
    told = client.get(reverse("api:release", args=["own", 1])).json()["errata"]
    assert [(row["sample"], row["kind"]) for row in told] == [(three[0].key, "withdrawn"), (three[1].key, "reported")]
    assert "Errata" in client.get(reverse("generation:release", args=["own", 1])).content.decode()
    history = client.get(reverse("api:sample-errata", args=[three[0].pk])).json()
    assert [row["kind"] for row in history] == ["reported", "dismissed", "withdrawn"]


def test_a_physician_reports_from_an_own_review(three: list[Sample], client: Client, zoe: User) -> None:
    own, other = (
        Review.objects.filter(case__lineage=sample.key, role="primary").select_related("physician").get()
        for sample in three[:2]
    )
    client.force_login(own.physician)
    page = reverse("review:mine-detail", args=[own.pk])
    url = reverse("generation:review-report", args=[own.pk])
    assert url in client.get(page).content.decode()
    assert client.post(url, {"reason": "I was wrong."})["Location"] == page
    shown = client.get(page).content.decode()
    assert "This sample was reported." in shown
    assert url not in shown
    client.force_login(zoe)
    assert client.post(url, {"reason": "Not mine."}).status_code == 404
    client.force_login(other.physician)
    body = {"reason": "Also."}
    said = client.post(reverse("api:review-report", args=[other.pk]), body, content_type="application/json")
    assert said.status_code == 201


def test_the_form_tells_nothing_of_an_open_case(tmp_path: Path, models: str, ana: User, client: Client) -> None:
    """Nor of a copy, whose outcome nobody is told: the form follows the outcome that the page shows."""
    generated(imported(conversations_file(tmp_path / "own.jsonl", 1)), endpoint(models))
    say(ana, approval)
    own = Review.objects.get()
    client.force_login(ana)
    assert (
        "report" not in client.get(reverse("review:mine-detail", args=[own.pk])).content.decode().partition("<main")[2]
    )
    assert client.post(reverse("generation:review-report", args=[own.pk]), {"reason": "Wrong."}).status_code == 404
    Case.objects.update(state="approved", ground="consensus", closed_at=timezone.now())
    SampleVersion.objects.update(status="approved")
    own.refresh_from_db()
    assert errata.reportable_version(ana, own) is not None
    own.case.kind = Case.Kind.REPEAT
    assert errata.reportable_version(ana, own) is None


def test_the_command(release: Release, three: list[Sample], manage: Manage) -> None:
    done = manage.json("withdraw_sample", three[0].key, "--reason", "Wrong.")
    assert done == {"sample": three[0].key, "reason": "Wrong.", "releases": ["own@1"]}
    assert manage.json("withdraw_sample", three[1].pk, "--reason", "Wrong.")["sample"] == three[1].key
    assert "not approved" in manage.refused("withdraw_sample", three[0].key, "--reason", "Wrong.")
    assert "no such sample" in manage.refused("withdraw_sample", "other-dialogue-000001", "--reason", "Wrong.")
    assert "no such sample" in manage.refused("withdraw_sample", "999", "--reason", "Wrong.")
