"""A training copy and real work look the same to the physician: pages, addresses and API."""

import itertools
import re
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from mhb_site.sign_in import own_data
from review.assignments import case_queue, claims
from review.calibration import services as calibration_services
from review.cases import services as cases_services
from review.models import Assignment, CalibrationItem, Case, User
from review.models.public_ids import AssignmentId, CaseId
from tests.conftest import Clock
from tests.review.factories import approval, claim, claim_and_submit, open_case, submit
from tests.review.pages import Browse

PUBLIC = re.compile(r"\b[0-9a-f]{32}\b")
# What differs between any two cases: public ids, tokens of claims and forms, times, the number of
# the physician's own review.
MASKS = (
    PUBLIC.pattern,
    r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}",
    r'(?<=csrfmiddlewaretoken" value=")\w+',
    r'(?<="X-CSRFToken": ")\w+',
    r"/mine/\d+/",
    r'(?<=/review/mine/">)\d+',  # how many were submitted this week
    r'(?<="id":)\d+',
    r'(?<=data-now=")\d+',
    r"\d{4}-\d\d-\d\dT[\d:.]+(Z|\+00:00)",
)


def masked(text: str) -> str:
    for mask in MASKS:
        text = re.sub(mask, "*", text)
    return text


def masked_pages(client: Client, assignment: Assignment) -> dict[str, str]:
    """Everything a physician can read of the held case, masked where any two cases differ."""
    pages = [
        reverse("review:workbench"),
        *(reverse(f"review:{name}", args=[assignment.pk]) for name in ("case", "decline")),
        reverse("api:assignment", args=[assignment.pk]),
    ]
    shown = {masked(page): client.get(page).content.decode() for page in pages}
    shown["next"] = client.post(reverse("api:assignment-next")).content.decode()
    return {page: masked(text) for page, text in shown.items()}


@pytest.fixture
def item(adela: User, ana: User, bo: User, settings: Any) -> CalibrationItem:
    """A case with a known answer; version 2 of a sample, like every case of this module."""
    settings.MHB_CALIBRATION_SHARE = 0
    case = second_version(1, adela)
    claim_and_submit(ana, approval())
    claim_and_submit(bo, approval(), approval())
    case.refresh_from_db()
    return calibration_services.make_item(case, approval(), actor=adela)


def second_version(number: int, adela: User) -> Case:
    first = open_case(number, title="The same")
    cases_services.withdraw(first.pk, actor=adela, reason="Another version follows.")
    return open_case(number, version=2, title="The same", asked_for=("Too plain.",))


def test_a_physician_cannot_tell_a_copy_from_work(
    item: CalibrationItem, adela: User, chen: User, browse: Browse, settings: Any, clock: Clock
) -> None:
    client = browse(chen)
    second_version(2, adela)
    second_version(3, adela)
    claim_and_submit(chen, approval())
    work = claim(chen)
    work_pages = masked_pages(client, work)
    submit(work, approval())
    settings.MHB_CALIBRATION_SHARE = 1
    copy = claim(chen)
    assert (work.case.kind, copy.case.kind) == ("work", "calibration")
    for page, text in masked_pages(client, copy).items():
        assert text.splitlines() == work_pages[page].splitlines(), page
    submit(copy, approval())

    listed = client.get(reverse("api:review-mine")).json()["results"]
    assert masked(str(listed[0]).replace("'", '"').replace(": ", ":")) == masked(
        str(listed[1]).replace("'", '"').replace(": ", ":")
    )
    rows = re.findall(r"<tr>.*?</tr>", client.get(reverse("review:mine")).content.decode(), re.DOTALL)
    assert masked(rows[1]) == masked(rows[2])
    first, second = (client.get(reverse("review:mine-detail", args=[row["id"]])).content.decode() for row in listed[:2])
    assert masked(first) == masked(second)


def test_own_data_do_not_say_when_copies_were_offered(
    item: CalibrationItem, adela: User, chen: User, settings: Any
) -> None:
    settings.MHB_CALIBRATION_SHARE = 1
    before = own_data.collect(chen)
    assert calibration_services.offer_again(chen, actor=adela) == 1
    assert own_data.collect(chen) == before


def test_a_released_copy_is_offered_again_like_work(item: CalibrationItem, chen: User, settings: Any) -> None:
    settings.MHB_CALIBRATION_SHARE = 1
    for _ in range(2):
        assignment = claim(chen)
        assert assignment.case.kind == "calibration"
        claim_reason = assignment.reason
        claims.release(chen, assignment.pk, assignment.token)  # type: ignore[arg-type]
    assert claim_reason == case_queue.WHY_AGAIN


def test_physicians_never_see_database_keys(item: CalibrationItem, chen: User, browse: Browse, settings: Any) -> None:
    settings.MHB_CALIBRATION_SHARE = 1
    assignment = claim(chen)
    client = browse(chen)
    work = client.get(reverse("api:assignment", args=[assignment.pk])).json()
    assert work["id"] == assignment.public_id
    assert "lineage" not in work["case"]
    page = client.get(reverse("review:case", args=[assignment.pk])).content.decode()
    assert assignment.public_id in page
    assert assignment.case.public_id in page
    assert f"Case {assignment.case_id}" not in page
    assert not re.search(r"(assignments|cases)/\d+/", page)
    assert client.get(f"/review/assignments/{assignment.pk}/").status_code == 404
    assert client.get(f"/api/v1/assignments/{assignment.pk}/").status_code == 404


def test_public_ids_are_a_permutation_without_order() -> None:
    numbers = [*range(1, 300), 2**63 - 1]
    public = [AssignmentId().to_url(number) for number in numbers]
    assert [AssignmentId().to_python(public_id) for public_id in public] == numbers
    assert all(PUBLIC.fullmatch(public_id) for public_id in public)
    ascents = sum(left < right for left, right in itertools.pairwise(public))
    assert 100 < ascents < 200
    assert not {CaseId().to_url(number) for number in numbers} & set(public)
    for made_up in ("0" * 32, "f" * 32, CaseId().to_url(7)):
        with pytest.raises(ValueError, match=made_up):
            AssignmentId().to_python(made_up)


def test_public_ids_depend_on_the_secret_key(settings: Any) -> None:
    before = AssignmentId().to_url(7)
    settings.SECRET_KEY = "another secret of the site, long enough"
    assert AssignmentId().to_url(7) != before
    with pytest.raises(ValueError, match=before):
        AssignmentId().to_python(before)
