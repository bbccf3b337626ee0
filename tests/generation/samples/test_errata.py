"""Errata: approved samples can be reported or withdrawn, and are then left out of the next release.

Releases that contain them do not change, but list them.
"""

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
from review.errors import NotAllowed, NotAssigned, TooLong
from review.models import Case, PersonEvent, Review, User
from review.rules import limits
from tests.conftest import PHYSICIANS, accounts_of
from tests.engine import Manage, approve_samples, conversations_file, endpoint, import_file, run_batch
from tests.populations import population
from tests.review.approve import approval_of
from tests.review.factories import account, claim_and_submit

pytestmark = [pytest.mark.django_db, pytest.mark.both]


@population
def approved_samples(folder: Path, models: str) -> list[Sample]:
    return approve_samples(import_file(conversations_file(folder / "own.jsonl", 3)), models, accounts_of(*PHYSICIANS))


@pytest.fixture
def zoe() -> User:
    """A physician without reviews."""
    return account("zoe")


@pytest.fixture
def release(approved_samples: list[Sample]) -> Release:
    return services.freeze_release("own", benchmark="mhb")


def test_reading_a_sample_is_reading_its_case(approved_samples: list[Sample], adela: User, client: Client) -> None:
    client.force_login(adela)
    for name in ("generation:sample", "api:sample"):
        assert client.get(reverse(name, args=[approved_samples[0].pk])).status_code == 200
    read = PersonEvent.objects.filter(kind=PersonEvent.Kind.READ, actor=adela)
    assert [event.data["case"] for event in read] == [approved_samples[0].versions.get().case_id], "once an hour"


def test_a_withdrawn_sample_is_not_in_the_next_release(
    release: Release, approved_samples: list[Sample], adela: User, tmp_path: Path
) -> None:
    export.Export(release, "jsonl").write(tmp_path / "before")
    errata.withdraw(approved_samples[0].pk, actor=adela, reason="The drug | exists\nafter all.")
    approved_samples[0].refresh_from_db()
    assert (approved_samples[0].status, approved_samples[0].versions.get().status) == ("withdrawn", "withdrawn")
    later = services.freeze_release("own", benchmark="mhb")
    assert (later.samples_count, later.excluded) == (2, {"withdrawn": 1})
    assert list(errata.errata_of(later, reader=None)) == []
    [erratum] = errata.errata_of(release, reader=None)
    assert (erratum.sample, erratum.kind) == (approved_samples[0], "withdrawn")
    card = data_card.data_card(release)
    assert f"| {approved_samples[0].key} |" in card
    assert "| withdrawn | The drug \\| exists after all. |" in card
    assert "## Errata" not in data_card.data_card(later)
    export.Export(release, "jsonl").write(tmp_path / "after")
    assert hashlib.sha256((tmp_path / "after/samples.jsonl").read_bytes()).hexdigest() == release.sha256, (
        "frozen samples do not change"
    )
    before, after = (
        {path.name: path.read_bytes() for path in (tmp_path / folder).iterdir() if path.is_file()}
        for folder in ("before", "after")
    )
    changed = {name for name in after if before[name] != after[name]}
    assert changed == {"DATACARD.md", "croissant.json", "manifest.json", "SHA256SUMS"}, (
        "the files that the release page names as changing"
    )
    assert release.samples.count() == 3
    with pytest.raises(errors.NotApproved):
        errata.withdraw(approved_samples[0].pk, actor=adela, reason="Again.")


def test_a_reported_sample_waits_for_an_admin(
    release: Release, approved_samples: list[Sample], rui: User, adela: User
) -> None:
    errata.report(approved_samples[1].pk, actor=rui, reason="I think that it is true.")
    preview = services.preview("own", benchmark="mhb")
    assert (preview.samples, preview.excluded) == (2, {"reported": 1})
    for person in (rui, adela):
        with pytest.raises(errors.AlreadyReported):
            errata.report(approved_samples[1].pk, actor=person, reason="As I said.")
    card = data_card.data_card(release)
    assert "| reported | not yet decided |" in card
    assert "I think" not in card, "the text of a report is not published"
    with pytest.raises(NotAllowed):
        errata.dismiss(approved_samples[1].pk, actor=rui, reason="No.")
    errata.dismiss(approved_samples[1].pk, actor=adela, reason="It is not.")
    assert services.preview("own", benchmark="mhb").samples == 3
    assert list(errata.errata_of(release, reader=None)) == []
    assert [row.kind for row in errata.history(approved_samples[1])] == ["reported", "dismissed"]
    with pytest.raises(errors.NotReported):
        errata.dismiss(approved_samples[1].pk, actor=adela, reason="Again.")


def test_only_people_who_can_read_a_sample_may_report_it(
    approved_samples: list[Sample], rui: User, zoe: User, physicians: Sequence[User]
) -> None:
    with pytest.raises(errors.UnknownSample):
        errata.report(approved_samples[0].pk, actor=rui, reason="Not released, so not read.")
    with pytest.raises(errors.UnknownSample):
        errata.report(approved_samples[0].pk, actor=zoe, reason="Not mine.")
    review = Review.objects.filter(case__lineage=approved_samples[0].key).order_by("pk")[0]
    assert errata.reviewed_sample_id(review.physician, review.pk) == approved_samples[0].pk
    with pytest.raises(NotAssigned):
        errata.reviewed_sample_id(zoe, review.pk)
    errata.report(approved_samples[0].pk, actor=review.physician, reason="I was wrong.")
    services.freeze_release("own", benchmark="mhb")
    errata.report(approved_samples[1].pk, actor=rui, reason="Read in the release.")


def test_researchers_cannot_find_out_which_samples_are_held_out(
    approved_samples: list[Sample], rui: User, adela: User, client: Client
) -> None:
    seed = next(
        n
        for n in range(1, 100)
        if 0
        < sum(Composition(held_out=0.5, seed=n).holds_out("own", s.record.external_id) for s in approved_samples)
        < 3
    )
    release = services.freeze_release("own", benchmark="mhb", composition=Composition(held_out=0.5, seed=seed))
    held_out = release.samples.filter(split="held-out")[0]
    with pytest.raises(errors.UnknownSample):
        errata.report(held_out.version.sample_id, actor=rui, reason="How would I know?")
    pages = reverse("generation:release-samples", args=["own", 1]), reverse("api:release-samples", args=["own", 1])
    for user, is_visible in ((rui, False), (adela, True)):
        client.force_login(user)
        assert all((held_out.key in client.get(page).content.decode()) is is_visible for page in pages)
        chosen = client.get(f"{pages[0]}?selected={held_out.pk}").context["chosen"]
        assert (chosen == held_out) is is_visible


@pytest.mark.parametrize("action", [errata.report, errata.withdraw])
def test_a_report_or_withdrawal_needs_a_reason(action, approved_samples: list[Sample], adela: User) -> None:
    for reason, refused in (("  ", errors.ReasonMissing), ("x" * (limits.REMARK + 1), TooLong)):
        with pytest.raises(refused):
            action(approved_samples[0].pk, actor=adela, reason=reason)
    assert not Erratum.objects.exists()
    assert SampleVersion.objects.filter(status="approved").count() == 3


def test_a_reason_is_kept_in_full_with_its_lines(approved_samples: list[Sample], adela: User) -> None:
    lines = "\n".join(["x" * 99] * 20)
    posted = lines.replace("\n", "\r\n")  # longer than the limit only because of how browsers post lines
    assert errata.withdraw(approved_samples[0].pk, actor=adela, reason=posted).reason == lines


def test_errata_cannot_be_changed(approved_samples: list[Sample], adela: User) -> None:
    errata.withdraw(approved_samples[0].pk, actor=adela, reason="Wrong.")
    with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
        Erratum.objects.update(reason="Right.")
    with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
        Erratum.objects.all().delete()


def test_the_pages_of_a_sample_show_its_evidence(approved_samples: list[Sample], adela: User, client: Client) -> None:
    citation = {"kind": "search", "reference": "PubMed", "section": "", "passage": "x < y", "read_on": "2026-03-01"}
    SampleVersion.objects.filter(sample=approved_samples[0]).update(citations=[citation])
    services.freeze_release("own", benchmark="mhb")
    client.force_login(adela)
    pages = (
        reverse("generation:sample", args=[approved_samples[0].pk]),
        reverse("generation:release-samples", args=["own", 1]),
    )
    for page in pages:
        assert "Searched, not found: PubMed “x &lt; y” (2026-03-01)" in client.get(page).content.decode()


def test_samples_are_reported_and_decided_on_pages_and_over_the_api(
    release: Release, approved_samples: list[Sample], rui: User, adela: User, client: Client
) -> None:
    client.force_login(rui)
    samples_url = reverse("generation:release-samples", args=["own", 1])
    assert (
        reverse("generation:sample-report", args=[approved_samples[0].pk]) in client.get(samples_url).content.decode()
    )
    url = reverse("generation:sample-report", args=[approved_samples[0].pk])
    response = client.post(url, {"reason": "It <b>exists</b>.", "back": str(release.pk)})
    assert response["Location"].startswith(f"{samples_url}?selected=")
    page = client.get(response["Location"]).content.decode()
    assert "It &lt;b&gt;exists&lt;/b&gt;." in page
    assert url not in page, "the sample is already reported"
    body = {"reason": "Wrong."}
    reported = client.post(
        reverse("api:sample-report", args=[approved_samples[1].pk]), body, content_type="application/json"
    )
    assert (reported.status_code, reported.json()["kind"]) == (201, "reported")
    assert client.post(reverse("api:sample-withdraw", args=[approved_samples[1].pk]), body).status_code == 403
    client.force_login(adela)
    links = [f'href="{reverse("generation:sample", args=[sample.pk])}"' for sample in approved_samples]
    overview = client.get(reverse("review:overview")).content.decode()
    assert [link in overview for link in links] == [True, True, False], (
        "admins see the reports that wait for a decision"
    )
    page = client.get(reverse("generation:sample", args=[approved_samples[0].pk])).content.decode()
    assert reverse("generation:sample-dismiss", args=[approved_samples[0].pk]) in page
    client.post(reverse("generation:sample-dismiss", args=[approved_samples[0].pk]), {"reason": "It does not."})
    client.post(reverse("generation:sample-withdraw", args=[approved_samples[0].pk]), {"reason": "Still."})
    overview = client.get(reverse("review:overview")).content.decode()
    assert [link in overview for link in links] == [False, True, False]
    errata_rows = client.get(reverse("api:release", args=["own", 1])).json()["errata"]
    assert [(row["sample"], row["kind"]) for row in errata_rows] == [
        (approved_samples[0].key, "withdrawn"),
        (approved_samples[1].key, "reported"),
    ]
    assert "Errata" in client.get(reverse("generation:release", args=["own", 1])).content.decode()
    history = client.get(reverse("api:sample-errata", args=[approved_samples[0].pk])).json()
    assert [row["kind"] for row in history] == ["reported", "dismissed", "withdrawn"]


def test_a_sample_is_withdrawn_where_it_is_read(
    release: Release, approved_samples: list[Sample], rui: User, adela: User, client: Client
) -> None:
    sample = approved_samples[0]
    case = SampleVersion.objects.get(sample=sample).case_id
    released = reverse("generation:release-sample", args=["own", 1, sample.key])
    pages = [released, reverse("review:history", args=[case]), reverse("generation:sample", args=[sample.pk])]
    form = reverse("generation:sample-withdraw", args=[sample.pk])
    client.force_login(rui)
    assert form not in client.get(released).content.decode(), "only admins withdraw"
    client.force_login(adela)
    assert all(form in client.get(page).content.decode() for page in pages)
    client.post(form, {"reason": "Wrong."})
    assert not any(form in client.get(page).content.decode() for page in pages)


def test_a_physician_can_report_a_sample_from_their_own_review(
    approved_samples: list[Sample], client: Client, zoe: User
) -> None:
    review, other_review = (
        Review.objects.filter(case__lineage=sample.key, role="primary").select_related("physician").get()
        for sample in approved_samples[:2]
    )
    client.force_login(review.physician)
    page = reverse("review:mine-detail", args=[review.pk])
    url = reverse("generation:review-report", args=[review.pk])
    assert url in client.get(page).content.decode()
    assert client.post(url, {"reason": "I was wrong."})["Location"] == page
    page_after = client.get(page).content.decode()
    assert "This sample was reported." in page_after
    assert url not in page_after
    client.force_login(zoe)
    assert client.post(url, {"reason": "Not mine."}).status_code == 404
    client.force_login(other_review.physician)
    body = {"reason": "Also."}
    response = client.post(reverse("api:review-report", args=[other_review.pk]), body, content_type="application/json")
    assert response.status_code == 201


def test_the_report_form_reveals_nothing_about_an_open_case(
    tmp_path: Path, models: str, ana: User, client: Client
) -> None:
    """The form is offered only where the page shows the outcome, so never for a copy of a case."""
    run_batch(import_file(conversations_file(tmp_path / "own.jsonl", 1)), endpoint(models))
    claim_and_submit(ana, approval_of)
    review = Review.objects.get()
    client.force_login(ana)
    assert (
        "report"
        not in client.get(reverse("review:mine-detail", args=[review.pk])).content.decode().partition("<main")[2]
    )
    assert client.post(reverse("generation:review-report", args=[review.pk]), {"reason": "Wrong."}).status_code == 404
    Case.objects.update(state="approved", ground="consensus", closed_at=timezone.now())
    SampleVersion.objects.update(status="approved")
    review.refresh_from_db()
    assert errata.reportable_version(ana, review) is not None
    review.case.kind = Case.Kind.REPEAT
    assert errata.reportable_version(ana, review) is None


def test_the_command_withdraws_a_sample(release: Release, approved_samples: list[Sample], manage: Manage) -> None:
    output = manage.json("withdraw_sample", approved_samples[0].key, "--reason", "Wrong.")
    assert output == {"sample": approved_samples[0].key, "reason": "Wrong.", "releases": ["own@1"]}
    assert (
        manage.json("withdraw_sample", approved_samples[1].pk, "--reason", "Wrong.")["sample"]
        == approved_samples[1].key
    )
    assert "not approved" in manage.refusal("withdraw_sample", approved_samples[0].key, "--reason", "Wrong.")
    assert "no such sample" in manage.refusal("withdraw_sample", "other-dialogue-000001", "--reason", "Wrong.")
    assert "no such sample" in manage.refusal("withdraw_sample", "999", "--reason", "Wrong.")


def test_a_refused_withdrawal_stays_on_its_page(client: Client, approved_samples: list[Sample], adela: User) -> None:
    client.force_login(adela)
    page = reverse("generation:sample", args=[approved_samples[0].pk])
    withdraw = reverse("generation:sample-withdraw", args=[approved_samples[0].pk])
    client.post(withdraw, {"reason": "It is true."})
    sentence = "This sample is not approved, or it was withdrawn."
    here = {"Referer": f"http://testserver{page}?version=1"}
    again = client.post(withdraw, {"reason": "Again."}, headers=here, follow=True)
    assert again.redirect_chain == [(f"http://testserver{page}?version=1", 302)]
    assert sentence in again.content.decode()
    for headers in (
        {},
        {"Referer": "http://elsewhere.example/"},
        {**here, "Sec-Fetch-Mode": "cors"},
        {**here, "HX-Request": "true"},
        {"Referer": f"http://testserver{withdraw}"},
    ):
        refused = client.post(withdraw, {"reason": "Again."}, headers=headers)
        assert (refused.status_code, sentence in refused.content.decode()) == (409, True), headers
