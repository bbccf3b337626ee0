"""A copy for training and a case that is work look alike to the physician: pages, addresses and API, before and after."""

import itertools
import re
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from review.assignments import claims, eligibility
from review.calibration import services as calibration_services
from review.cases import services as cases_services
from review.models import Assignment, CalibrationItem, Case, User
from review.models.public_ids import AssignmentId, CaseId
from tests.conftest import Clock
from tests.review.factories import approval, claim, claim_and_submit, open_case, submit
from tests.review.pages import Browse

PUBLIC = re.compile(r"\b[0-9a-f]{32}\b")
# What differs between any two cases: opaque numbers, tokens of claims and forms, times, the number of one's own review.
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


def seen(client: Client, held: Assignment) -> dict[str, str]:
    """All that a physician can read of the case in hand, with what differs between any two cases masked."""
    pages = [
        reverse("review:workbench"),
        *(reverse(f"review:{name}", args=[held.pk]) for name in ("case", "decline")),
        reverse("api:assignment", args=[held.pk]),
    ]
    found = {masked(page): client.get(page).content.decode() for page in pages}
    found["next"] = client.post(reverse("api:assignment-next")).content.decode()
    return {page: masked(text) for page, text in found.items()}


@pytest.fixture
def item(adela: User, ana: User, bo: User, settings: Any) -> CalibrationItem:
    """A case with a known answer: version 2 of a sample, as are all that this module opens."""
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


def test_nothing_that_a_physician_reads_tells_a_copy_from_work(
    item: CalibrationItem, adela: User, chen: User, browse: Browse, settings: Any, clock: Clock
) -> None:
    client = browse(chen)
    second_version(2, adela)
    second_version(3, adela)
    claim_and_submit(chen, approval())
    work = claim(chen)
    at_work = seen(client, work)
    submit(work, approval())
    settings.MHB_CALIBRATION_SHARE = 1
    copy = claim(chen)
    assert (work.case.kind, copy.case.kind) == ("work", "calibration")
    for place, text in seen(client, copy).items():
        assert text.splitlines() == at_work[place].splitlines(), place
    submit(copy, approval())

    listed = client.get(reverse("api:review-mine")).json()["results"]
    assert masked(str(listed[0]).replace("'", '"').replace(": ", ":")) == masked(
        str(listed[1]).replace("'", '"').replace(": ", ":")
    )
    rows = re.findall(r"<tr>.*?</tr>", client.get(reverse("review:mine")).content.decode(), re.DOTALL)
    assert masked(rows[1]) == masked(rows[2])
    one, other = (client.get(reverse("review:mine-detail", args=[row["id"]])).content.decode() for row in listed[:2])
    assert masked(one) == masked(other)


def test_a_copy_given_back_comes_again_as_work_does(item: CalibrationItem, chen: User, settings: Any) -> None:
    settings.MHB_CALIBRATION_SHARE = 1
    for _ in range(2):
        held = claim(chen)
        assert held.case.kind == "calibration"
        why = held.why
        claims.release(chen, held.pk, held.token)  # type: ignore[arg-type]
    assert why == eligibility.WHY_AGAIN


def test_no_key_of_the_database_is_in_sight_of_a_physician(
    item: CalibrationItem, chen: User, browse: Browse, settings: Any
) -> None:
    settings.MHB_CALIBRATION_SHARE = 1
    held = claim(chen)
    client = browse(chen)
    work = client.get(reverse("api:assignment", args=[held.pk])).json()
    assert work["id"] == held.public_id
    assert "lineage" not in work["case"]
    page = client.get(reverse("review:case", args=[held.pk])).content.decode()
    assert held.public_id in page
    assert held.case.public_id in page
    assert f"Case {held.case_id}" not in page
    assert not re.search(r"(assignments|cases)/\d+/", page)
    assert client.get(f"/review/assignments/{held.pk}/").status_code == 404
    assert client.get(f"/api/v1/assignments/{held.pk}/").status_code == 404


def test_public_numbers_are_a_permutation_without_order() -> None:
    numbers = [*range(1, 300), 2**63 - 1]
    public = [AssignmentId().to_url(number) for number in numbers]
    assert [AssignmentId().to_python(one) for one in public] == numbers
    assert all(PUBLIC.fullmatch(one) for one in public)
    ascents = sum(one < other for one, other in itertools.pairwise(public))
    assert 100 < ascents < 200
    assert not {CaseId().to_url(number) for number in numbers} & set(public)
    for made_up in ("0" * 32, "f" * 32, CaseId().to_url(7)):
        with pytest.raises(ValueError, match=made_up):
            AssignmentId().to_python(made_up)


def test_public_numbers_hang_on_the_secret(settings: Any) -> None:
    before = AssignmentId().to_url(7)
    settings.SECRET_KEY = "another secret of the site, long enough"
    assert AssignmentId().to_url(7) != before
    with pytest.raises(ValueError, match=before):
        AssignmentId().to_python(before)
