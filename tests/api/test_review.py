"""Review over the API: what each physician may read at which stage, and what stays sealed."""

from typing import Any

from django.urls import reverse

from review.models import Assignment, Case, Draft, User
from tests.api.conftest import Api, Client
from tests.review.factories import open_case

APPROVE = {
    "questions": {"natural": {"value": "yes"}, "aligned": {"value": "yes"}},
    "rubrics": {"R1": {"value": "adequate"}, "R2": {"value": "adequate"}},
    "verdict": "approve",
}


def reject(reason: str) -> dict[str, Any]:
    return {**APPROVE, "verdict": "reject", "reason": reason}


def claim(client: Client) -> dict[str, Any]:
    answer = client.post(reverse("api:assignment-next"))
    assert answer.status_code == 200, answer.content
    body: dict[str, Any] = answer.json()
    return body


def act(client: Client, action: str, work: dict[str, Any], **body: Any) -> Any:
    address = reverse(f"api:assignment-{action}", args=[work["id"]])
    send = client.put if action == "draft" else client.post
    return send(address, {"token": work["token"], **body})


def submit(client: Client, work: dict[str, Any], answers: dict[str, Any]) -> dict[str, Any]:
    answer = act(client, "submit", work, answers=answers)
    assert answer.status_code == 201, answer.content
    body: dict[str, Any] = answer.json()
    return body


def everything(client: Client) -> str:
    """Everything that a physician can read over the API, as one text."""
    addresses = [reverse("api:review-mine"), reverse("api:me")]
    addresses += [reverse("api:assignment", args=[assignment.pk]) for assignment in Assignment.objects.all()]
    return b"".join(client.get(address).content for address in addresses).decode()


def test_204_when_no_case_waits(api: Api, ana: User) -> None:
    answer = api(ana).post(reverse("api:assignment-next"))
    assert answer.status_code == 204
    assert answer.content == b""


def test_a_physician_claims_saves_renews_and_releases(api: Api, ana: User) -> None:
    open_case()
    client = api(ana)
    work = claim(client)
    assert (work["role"], work["phase"], work["hold"], work["draft"], work["reviews"]) == (
        "primary",
        "commit",
        "held",
        None,
        [],
    )
    assert work["case"]["blocks"][0]["turns"] == [{"speaker": "user", "text": "May I take Neurostatin?", "mark": ""}]
    assert [question["key"] for question in work["case"]["form"]["questions"]] == ["natural", "aligned"]
    assert claim(client)["id"] == work["id"], "an assignment already held comes first"

    answers = {"questions": {"natural": {"value": "no", "note": " as typed "}}}
    saved = act(client, "draft", work, revision=0, answers=answers)
    assert (saved.status_code, saved.json()["revision"]) == (200, 1)
    stale = act(client, "draft", work, revision=0, answers=answers)
    assert (stale.status_code, stale.json()["type"]) == (409, "urn:mhb:stale-draft")
    draft = client.get(reverse("api:assignment", args=[work["id"]])).json()["draft"]
    assert draft["answers"]["questions"]["natural"] == {"value": "no", "note": " as typed "}
    assert act(client, "heartbeat", work).json()["lease_until"] >= work["lease_until"]
    assert act(client, "release", work).status_code == 204
    assert client.get(reverse("api:assignment", args=[work["id"]])).status_code == 404
    assert Draft.objects.get().physician == ana


def test_every_stage_of_a_case_and_who_may_read_what_in_it(
    api: Api, ana: User, bo: User, chen: User, dina: User, emil: User, adela: User
) -> None:
    case = open_case()
    a, b, c, d, e = (api(person) for person in (ana, bo, chen, dina, emil))
    marks = {"ana": "MARK-ANA", "bo": "MARK-BO", "chen": "MARK-CHEN", "dina": "MARK-DINA"}

    def read_by(client: Client) -> set[str]:
        text = everything(client)
        return {name for name, mark in marks.items() if mark in text}

    primary = claim(a)
    assert act(a, "draft", primary, revision=0, answers=reject("MARK-ANA")).status_code == 200
    assert read_by(b) == set()
    submit(a, primary, {**APPROVE, "reason": "MARK-ANA"})

    blind = claim(b)
    assert (blind["role"], blind["phase"], blind["reviews"]) == ("secondary", "commit", [])
    assert read_by(b) == set(), "the secondary is blind until their own answer is committed"
    committed = submit(b, blind, reject("MARK-BO"))["assignment"]
    assert (committed["phase"], committed["token"] != blind["token"]) == ("confirm", True)
    assert read_by(a) == {"ana"}
    assert read_by(b) == {"ana", "bo"}
    again = act(b, "submit", blind, answers=reject("MARK-BO"))
    assert (again.status_code, again.json()["type"]) == (409, "urn:mhb:already-submitted")
    mine = a.get(reverse("api:review-mine")).json()["results"][0]
    assert (mine["outcome"], "state" in mine["case"]) == ("", False)
    submit(b, {**blind, **committed}, reject("MARK-BO"))

    first, second = claim(c), claim(d)
    assert {first["role"], second["role"]} == {"adjudicator-1", "adjudicator-2"}
    assert {(review["role"], review["own"]) for review in first["reviews"]} == {
        ("primary", False),
        ("secondary", False),
    }
    assert e.post(reverse("api:assignment-next")).status_code == 204
    submit(c, first, {**APPROVE, "reason": "MARK-CHEN"})
    assert read_by(d) == {"ana", "bo"}, "adjudicators are sealed from each other"
    vote = submit(d, second, reject("MARK-DINA"))["assignment"]
    assert vote["phase"] == "discuss"
    assert read_by(c) == read_by(d) == set(marks), "both have voted and differ: both rationales are open"
    for client, work in ((c, first), (d, second)):
        current = client.get(reverse("api:assignment", args=[work["id"]])).json()
        submit(client, current, reject("MARK-CHEN"))
    assert read_by(e) == set()

    case.refresh_from_db()
    assert case.state == Case.State.REJECTED
    assert a.get(reverse("api:review-mine")).json()["results"][0]["outcome"] == "rejected"

    detail = api(adela).get(reverse("api:case", args=[case.pk])).json()
    assert [review["physician"] for review in detail["reviews"]] == ["ana", "bo", "bo", "chen", "dina", "chen", "dina"]
    assert [event["kind"] for event in detail["trail"]][:3] == ["opened", "claimed", "submitted"]
    assert detail["trail"][-1]["kind"] == "closed"


def test_physicians_read_no_names_of_others(api: Api, ana: User, bo: User) -> None:
    open_case()
    submit(api(ana), claim(api(ana)), APPROVE)
    b = api(bo)
    submit(b, claim(b), reject("no"))
    text = everything(b)
    assert '"own":false' in text.replace(" ", "")
    assert "ana" not in text.lower().replace("another", "")
    assert "alves" not in text.lower()


def test_404_for_somebody_elses_assignment(api: Api, ana: User, bo: User) -> None:
    open_case()
    work = claim(api(ana))
    other = api(bo)
    assert other.get(reverse("api:assignment", args=[work["id"]])).status_code == 404
    for action, body in (
        ("heartbeat", {}),
        ("release", {}),
        ("submit", {"answers": APPROVE}),
        ("draft", {"answers": APPROVE, "revision": 0}),
    ):
        assert act(other, action, work, **body).status_code == 404, action


def test_admins_see_no_token_and_no_draft(api: Api, ana: User, adela: User) -> None:
    case = open_case()
    client = api(ana)
    work = claim(client)
    act(client, "draft", work, revision=0, answers={"reason": "MARK-DRAFT"})
    text = api(adela).get(reverse("api:case", args=[case.pk])).content.decode()
    assert "MARK-DRAFT" not in text
    assert work["token"] not in text
    assert '"physician":"ana"' in text


def test_an_admin_raises_the_priority_and_withdraws_a_case(api: Api, adela: User, ana: User) -> None:
    first, second = open_case(1), open_case(2)
    client = api(adela)
    address = reverse("api:case-priority", args=[second.pk])
    assert client.post(address, {"priority": 2**15}).status_code == 400
    raised = client.post(address, {"priority": 2**15 - 1})
    assert (raised.status_code, raised.json()["priority"]) == (200, 2**15 - 1)
    assert claim(api(ana))["case"]["title"] == second.title
    withdrawn = client.post(reverse("api:case-withdraw", args=[first.pk]), {"reason": "A duplicate."})
    assert (withdrawn.status_code, withdrawn.json()["state"]) == (200, "withdrawn")
    again = client.post(reverse("api:case-withdraw", args=[first.pk]), {"reason": "A duplicate."})
    assert (again.status_code, again.json()["type"]) == (409, "urn:mhb:case-closed")
    listed = client.get(reverse("api:cases"), {"state": "withdrawn"}).json()["results"]
    assert [row["id"] for row in listed] == [first.pk]
    assert client.post(reverse("api:case-withdraw", args=[999]), {"reason": "x"}).status_code == 404


def test_an_admin_changes_the_specialty_of_a_case(api: Api, adela: User, ana: User) -> None:
    case, admin = open_case(), api(adela)
    address = reverse("api:case-specialty", args=[case.pk])
    answer = admin.post(address, {"specialty": " Nephrology "})
    assert (answer.status_code, answer.json()["specialty"]) == (200, "Nephrology")
    assert Assignment.objects.get().specialty == "nephrology"
    assert api(ana).post(reverse("api:assignment-next")).status_code == 204, "she is a cardiologist"
    assert admin.get(reverse("api:case", args=[case.pk])).json()["trail"][-1]["kind"] == "specialty"
    assert admin.post(address, {"specialty": "x" * 101}).status_code == 400
    assert admin.post(address, {"specialty": ""}).json()["specialty"] == ""
    admin.post(reverse("api:case-withdraw", args=[case.pk]), {"reason": "Twice."})
    assert admin.post(address, {"specialty": "Oncology"}).status_code == 409


def test_an_admin_sets_a_role_back(api: Api, adela: User, ana: User, bo: User, chen: User) -> None:
    case, admin = open_case(), api(adela)
    address = reverse("api:case-set-back", args=[case.pk])
    for physician in (ana, bo):
        submit(api(physician), claim(api(physician)), APPROVE)
    assert admin.post(address, {"role": "secondary"}).status_code == 400, "without a reason"
    assert admin.post(address, {"role": "adjudicator-1", "reason": "Left."}).status_code == 404
    assert admin.post(address, {"role": "primary", "reason": "Left."}).status_code == 409
    body = admin.post(address, {"role": "secondary", "reason": "Left."}).json()
    assert (body["role"], body["phase"], body["hold"], body["physician"]) == ("secondary", "commit", "open", None)
    assert claim(api(chen))["role"] == "secondary"
    assert admin.post(address, {"role": "secondary", "reason": "Left."}).status_code == 409
