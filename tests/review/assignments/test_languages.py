"""Cases go to physicians who read their language; one of unknown language waits for an admin."""

import json

import pytest
from django.test import Client
from django.urls import reverse

from review import errors
from review.assignments import claims, reassignment
from review.cases import services as cases_services
from review.models import Assignment, Case, Event, User
from review.rules.case_spec import UNDETERMINED
from review.rules.state_machine import Role
from tests.review.factories import approval, claim, claim_and_submit, open_case

pytestmark = pytest.mark.both


@pytest.fixture
def undetermined_case(db: None) -> Case:
    return open_case(language=UNDETERMINED)


def test_a_case_of_unknown_language_is_offered_to_nobody(
    undetermined_case: Case, ana: User, bo: User, adela: User
) -> None:
    User.objects.filter(pk=bo.pk).update(languages=["en", "zh"])
    bo.refresh_from_db()
    assert claims.claim_next(ana) is None
    assert claims.claim_next(bo) is None
    cases_services.set_language(undetermined_case.pk, " FR ", actor=adela)
    assert claims.claim_next(bo) is None
    cases_services.set_language(undetermined_case.pk, "zh", actor=adela)
    claim_and_submit(bo, approval())
    assert Assignment.objects.get(case=undetermined_case, role=Role.SECONDARY).language == "zh"  # later roles too
    assert claim(ana).case == undetermined_case  # she has no languages on record
    events = Event.objects.filter(case=undetermined_case, kind=Event.Kind.LANGUAGE).order_by("pk")
    assert [(event.actor, event.data) for event in events] == [(adela, {"text": "fr"}), (adela, {"text": "zh"})]
    with pytest.raises(errors.NotAllowed):
        cases_services.set_language(undetermined_case.pk, "en", actor=bo)


def test_an_admin_may_reserve_a_case_of_unknown_language(undetermined_case: Case, ana: User, adela: User) -> None:
    reassignment.reserve(undetermined_case.pk, to=ana, actor=adela)
    assert claim(ana).case == undetermined_case


def test_the_overview_asks_for_languages_and_the_list_sets_many(undetermined_case: Case, adela: User) -> None:
    other = open_case(2, language=UNDETERMINED)
    client = Client()
    client.force_login(adela)
    overview = client.get(reverse("review:overview")).content.decode()
    assert "2 cases wait until you set their language" in " ".join(overview.split())
    cases_url = reverse("review:cases")
    page = client.get(cases_url, {"language": UNDETERMINED}).content.decode()
    assert page.count("unknown, waits for an admin") >= 3  # the filter's choice, and both rows
    chosen = {"rows": [undetermined_case.pk, other.pk], "action": "language", "language-language": "en"}
    client.post(f"{cases_url}?language={UNDETERMINED}", chosen, follow=True)
    assert set(Case.objects.values_list("language", flat=True)) == {"en"}
    assert "until you set" not in client.get(reverse("review:overview")).content.decode()


def test_the_language_is_set_on_the_page_and_over_the_api(undetermined_case: Case, adela: User, ana: User) -> None:
    client = Client()
    client.force_login(adela)
    history, address = (
        reverse("review:history", args=[undetermined_case.pk]),
        reverse("review:case-language", args=[undetermined_case.pk]),
    )
    assert "offered to nobody until you set it" in client.get(history).content.decode()
    client.post(address, {"language": "English, please"})
    undetermined_case.refresh_from_db()
    assert undetermined_case.language == UNDETERMINED
    client.post(address, {"language": "en"})
    undetermined_case.refresh_from_db()
    assert undetermined_case.language == "en"
    route = f"/api/v1/cases/{undetermined_case.pk}/language/"
    assert client.post(route, json.dumps({"language": "EN!"}), "application/json").status_code == 400
    assert client.post(route, json.dumps({"language": "de"}), "application/json").json()["language"] == "de"
    assert client.get("/api/v1/cases/?language=de").json()["results"][0]["id"] == undetermined_case.pk
    client.force_login(ana)
    assert client.post(route, json.dumps({"language": "en"}), "application/json").status_code == 403
    assert client.post(address, {"language": "en"}).status_code == 403
