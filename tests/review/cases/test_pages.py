"""The pages of review: who sees what, which input survives, and that no input becomes markup."""

import re
from typing import Any

import pytest
from django.db import connection
from django.http import QueryDict
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from review.access import visibility
from review.answers.answer_form import fill_form
from review.answers.posted_answers import Offer, answers_from_post
from review.assignments import claims
from review.cases import queries, services
from review.models import Assignment, Case, Draft, Event, Review, User
from review.rules import limits
from review.rules.blocks import Dialogue, Diff, Image, Table, Text, Turn
from review.rules.case_spec import answers_from_json
from review.rules.permissions import UserRole
from review.rules.questions import Answers, Form, Question, RubricAnswer, RubricText, problems
from review.rules.state_machine import Phase, State
from tests.review.factories import (
    FORM,
    PASSWORD,
    account,
    approval,
    case_in_adjudication,
    case_in_secondary,
    claim,
    claim_and_submit,
    correction,
    open_case,
    rejection,
    submit,
)
from tests.review.pages import HTMX, Browse, Elements, Page, checked_value, post, refused_page, text_of

# The day of a physician
# --------------------------------------------------------------------------------------------------


def test_an_empty_front_page_says_what_it_will_show(browse: Browse, ana: User) -> None:
    assert "No cases available" in text_of(browse(ana).get(reverse("review:workbench")))


def test_a_physician_claims_submits_and_continues_with_the_next_case(browse: Browse, ana: User) -> None:
    first, second = open_case(1), open_case(2)
    client = browse(ana)
    assert "2 cases available" in text_of(client.get(reverse("review:workbench")))

    answer = client.post(reverse("review:next"))
    assignment = Assignment.objects.get(physician=ana)
    first, second = (first, second) if assignment.case == first else (second, first)  # either may be offered first
    assert assignment.case == first
    assert answer["Location"] == reverse("review:case", args=[assignment.pk])
    assert "Continue" in text_of(client.get(reverse("review:workbench")))
    page = client.get(answer["Location"])
    assert Elements(page).named("token")[0]["value"] == str(assignment.token)

    answer = post(client, "submit", assignment, approval())
    assert Review.objects.get().case == first
    following = Assignment.objects.get(physician=ana, hold="held")
    assert following.case == second
    assert answer["Location"] == reverse("review:case", args=[following.pk])

    answer = post(client, "submit", following, approval())
    assert answer["Location"] == reverse("review:workbench")
    assert "No cases are available for you right now." in text_of(client.get(answer["Location"]))


def test_submit_and_stop_claims_no_further_case(browse: Browse, ana: User) -> None:
    open_case(1)
    open_case(2)
    assignment = claim(ana)
    answer = post(browse(ana), "submit", assignment, approval(), stop="1")
    assert answer["Location"] == reverse("review:workbench")
    assert not visibility.assignments_held_by(ana).exists()


def test_a_missing_answer_is_named_linked_and_focused(browse: Browse, ana: User) -> None:
    open_case()
    assignment = claim(ana)
    typed = rejection(
        reason="", questions={}, rubrics={"R1": RubricAnswer("inadequate"), "R2": RubricAnswer("adequate")}
    )
    client = browse(ana)
    refused = post(client, "submit", assignment, typed, **{"question.aligned.note": "It is <i>off</i>."})
    page = refused_page(client, refused)
    elements = Elements(page)
    ids = elements.ids()
    assert len(ids) == len(set(ids))
    links = [attrs["href"] for tag, attrs in elements.tags if tag == "a" and (attrs.get("href") or "").startswith("#")]
    targets = [link.removeprefix("#") for link in links if link and link != "#main"]
    assert targets[:2] == ["guideline", "talk"], "the case's own links"
    assert targets[2:] == ["question-1-1", "question-2-1", "rubric-1-note", "reason", "messages"]
    assert set(targets) <= set(ids)
    described = [attrs["aria-describedby"] for _, attrs in elements.tags if "aria-describedby" in attrs]
    assert {"question-1-error", "question-2-error", "rubric-1-note-error", "reason-error"} <= set(described) <= set(ids)
    assert [attrs["id"] for _, attrs in elements.tags if "autofocus" in attrs] == ["question-1-1"]
    assert "It is &lt;i&gt;off&lt;/i&gt;." in text_of(page), "the typed text is still there"
    assert checked_value(page, "rubric.R1") == "inadequate"
    assert not Review.objects.exists()


def test_a_second_submit_is_refused_with_an_explanation(browse: Browse, ana: User) -> None:
    open_case()
    assignment = claim(ana)
    client = browse(ana)
    post(client, "submit", assignment, approval())
    page = post(client, "submit", assignment, rejection())
    assert page.status_code == 409
    assert "already been submitted" in text_of(page)
    assert reverse("home") in text_of(page)
    assert [review.verdict for review in Review.objects.all()] == ["approve"]


def test_a_submitted_assignment_redirects_to_the_page_of_its_review(browse: Browse, ana: User) -> None:
    open_case()
    assignment = claim(ana)
    client = browse(ana)
    post(client, "submit", assignment, correction("Says that no drug has this name."))
    answer = client.get(reverse("review:case", args=[assignment.pk]))
    assert answer["Location"] == reverse("review:mine-detail", args=[Review.objects.get().pk])
    page = text_of(client.get(answer["Location"]))
    assert "<ins>" in page
    assert "<del>" in page


@pytest.mark.parametrize("token", ["", "none", "00000000-0000-0000-0000-000000000000"])
def test_a_form_without_its_token_writes_nothing(token: str, browse: Browse, ana: User) -> None:
    open_case()
    assignment = claim(ana)
    assert post(browse(ana), "submit", assignment, approval(), token=token).status_code == 409
    assert not Review.objects.exists()


# Drafts and leases
# --------------------------------------------------------------------------------------------------


def test_a_saved_draft_is_shown_again(browse: Browse, ana: User) -> None:
    open_case()
    assignment = claim(ana)
    client = browse(ana)
    answer = post(client, "draft", assignment, correction("Says that it is invented.", reason="not yet"))
    assert answer["Location"] == reverse("review:case", args=[assignment.pk])
    page = client.get(answer["Location"])
    assert checked_value(page, "rubric.R1") == "corrected"
    assert "Says that it is invented." in text_of(page)
    assert Elements(page).named("revision")[0]["value"] == "1"


def test_the_autosave_answers_with_revision_lease_and_marked_wording(browse: Browse, ana: User) -> None:
    open_case()
    assignment = claim(ana)
    page = post(browse(ana), "draft", assignment, correction("Says that the medicine does not exist."), headers=HTMX)
    assert page.status_code == 200
    assert "<html" not in text_of(page)
    elements = Elements(page)
    assert elements.named("revision")[0]["value"] == "1"
    swapped_ids = [attrs["id"] for _, attrs in elements.tags if "hx-swap-oob" in attrs]
    assert swapped_ids == ["lease", "rubric-1-diff", "rubric-2-diff"]
    assert "<del>drug</del><ins>medicine</ins>" in text_of(page)


def test_a_second_window_does_not_overwrite_the_draft(browse: Browse, ana: User) -> None:
    open_case()
    assignment = claim(ana)
    client = browse(ana)
    post(client, "draft", assignment, approval(reason="from the first window"))
    fragment = post(client, "draft", assignment, approval(reason="from the second"), headers=HTMX)
    assert fragment.status_code == 409
    assert "data-problem" in text_of(fragment)
    [over] = Elements(fragment).named("over")
    assert "formaction" in over, "the fragment offers to overwrite, too"
    assert reverse("review:case", args=[assignment.pk]) in text_of(fragment)
    page = post(client, "draft", assignment, approval(reason="from the second"))
    assert page.status_code == 409
    assert "from the second" in text_of(page), "the text typed in this window is not lost"
    assert Draft.objects.get().answers["reason"] == "from the first window"

    elements = Elements(page)
    revision = elements.named("revision")[0]["value"]
    assert post(client, "draft", assignment, approval(reason="typed on"), revision=revision).status_code == 409, (
        "only on request"
    )
    overwrite = elements.named("over")[0]["value"]
    post(client, "draft", assignment, approval(reason="from the second"), over=overwrite)
    assert Draft.objects.get().answers["reason"] == "from the second"


@pytest.mark.parametrize("action", ["submit", "draft"])
@pytest.mark.parametrize("headers", [{}, HTMX])
def test_a_lost_lease_keeps_the_draft(
    action: str, headers: dict[str, str], browse: Browse, ana: User, bo: User, clock: Any
) -> None:
    open_case()
    assignment = claim(ana)
    clock.advance(minutes=16)
    bos_assignment = claim(bo)
    page = post(browse(ana), action, assignment, approval(reason="two hours of work"), headers=headers)
    assert page.status_code == 409
    assert "Your draft is kept." in text_of(page)
    assert ("<html" in text_of(page)) is not bool(headers)
    assert not Review.objects.exists()
    assert bos_assignment.token is not None
    claims.release(bo, bos_assignment.pk, bos_assignment.token)
    again = claim(ana)
    assert "two hours of work" in text_of(browse(ana).get(reverse("review:case", args=[again.pk])))


def test_the_heartbeat_renews_the_lease(browse: Browse, ana: User, clock: Any) -> None:
    open_case()
    assignment = claim(ana)
    clock.advance(minutes=10)
    answer = browse(ana).post(
        reverse("review:heartbeat", args=[assignment.pk]), {"token": str(assignment.token)}, headers=HTMX
    )
    assert 'data-seconds-left="900"' in text_of(answer)


def test_releasing_an_assignment_keeps_the_draft(browse: Browse, ana: User, bo: User) -> None:
    case = open_case()
    assignment = claim(ana)
    answer = post(browse(ana), "release", assignment, approval(reason="to be continued"))
    assert answer["Location"] == reverse("review:workbench")
    assert claim(bo).case == case
    assert Draft.objects.get(physician=ana).answers["reason"] == "to be continued"
    assert Draft.objects.filter(physician=bo).count() == 0


def test_a_withdrawn_case_is_closed_to_its_holder(browse: Browse, ana: User, adela: User) -> None:
    case = open_case()
    assignment = claim(ana)
    services.withdraw(case.pk, actor=adela, reason="The source was withdrawn.")
    client = browse(ana)
    assert client.get(reverse("review:case", args=[assignment.pk])).status_code == 409
    assert post(client, "submit", assignment, approval()).status_code == 409
    assert not Review.objects.exists()


# Blindness
# --------------------------------------------------------------------------------------------------


def test_the_secondary_is_blind_then_compares_without_names(browse: Browse, ana: User, bo: User) -> None:
    case_in_secondary(ana, correction("Says that it was made up by somebody.", reason="seen by ana"))
    assignment = claim(bo)
    client = browse(bo)
    address = reverse("review:case", args=[assignment.pk])
    blind = text_of(client.get(address))
    assert "made up" not in blind
    assert "seen by ana" not in blind
    assert "adopt." not in blind
    assert post(client, "submit", assignment, approval())["Location"] == address
    assignment.refresh_from_db()
    page = client.get(address)
    assert "seen by ana" in text_of(page)
    assert "Alves" not in text_of(page)
    assert [checked_value(page, name) for name in ("question.natural", "rubric.R1", "verdict")] == [
        "yes",
        "adequate",
        "approve",
    ]
    assert page.content.index(b"compare__line--differs") < page.content.index(b"compare__rest")


def test_the_blind_answers_submitted_again_need_no_reason(browse: Browse, ana: User, bo: User) -> None:
    case = case_in_secondary(ana)
    assignment = claim(bo)
    submit(assignment, rejection())
    assignment.refresh_from_db()
    post(browse(bo), "submit", assignment, rejection())
    confirmed = Review.objects.get(role="secondary", phase=Phase.CONFIRM)
    assert answers_from_json(confirmed.answers) == rejection()
    case.refresh_from_db()
    assert case.state == State.ADJUDICATION


def test_a_change_needs_a_reason_and_a_wording_can_be_adopted(browse: Browse, ana: User, bo: User) -> None:
    case = case_in_secondary(ana, correction("Says that it was made up by somebody."))
    assignment = claim(bo)
    submit(assignment, approval())
    assignment.refresh_from_db()
    client = browse(bo)
    adopting = {"rubric.R1": "adopt.primary"}
    page = refused_page(client, post(client, "submit", assignment, approval(), **adopting))
    assert Elements(page).named("change_reason")[0]["aria-invalid"] == "true"
    assert checked_value(page, "rubric.R1") == "adopt.primary"
    post(client, "submit", assignment, approval(change_reason="Better than mine."), revision="1", **adopting)
    case.refresh_from_db()
    assert queries.settled_case(case).rubrics[0].criterion == "Says that it was made up by somebody."


def test_adjudicators_see_both_reviews_but_no_other_vote_until_they_differ(
    browse: Browse, ana: User, bo: User, chen: User, dina: User
) -> None:
    case_in_adjudication(ana, bo)
    chens, dinas = claim(chen), claim(dina)
    client = browse(dina)
    address = reverse("review:case", args=[dinas.pk])
    page = text_of(client.get(address))
    assert "First reviewer" in page
    assert "Second reviewer" in page
    assert "Alves" not in page
    assert "Berg" not in page
    submit(chens, rejection("chen's own reason"))
    assert "chen&#x27;s own reason" not in text_of(client.get(address))
    waiting = browse(chen).get(reverse("review:case", args=[chens.pk]), follow=True)
    assert "First reviewer" in text_of(waiting)

    answer = post(client, "submit", dinas, approval(), agreed="1")
    assert answer["Location"] == address
    page = text_of(client.get(address))
    assert "chen&#x27;s own reason" in page
    assert "second vote" in page
    assert "Chen" not in page
    expected = text_of(browse(chen).get(reverse("review:workbench")))
    assert "votes differ" in expected


def test_a_reviewer_reads_the_other_reviews_when_the_case_has_closed(
    browse: Browse, ana: User, bo: User, chen: User, dina: User
) -> None:
    case_in_adjudication(ana, bo)
    client = browse(ana)
    address = reverse("review:mine-detail", args=[Review.objects.get(physician=ana).pk])
    assert "Nobody would ask this." not in text_of(client.get(address))
    claim_and_submit(chen, rejection("As the second reviewer says."))
    claim_and_submit(dina, rejection())
    page = text_of(client.get(address))
    assert "Nobody would ask this." in page
    assert "As the second reviewer says." in page
    assert not [name for name in ("Berg", "Chen", "Daoud") if name in page]


def test_the_reasons_for_a_new_version_are_on_the_page(browse: Browse, ana: User) -> None:
    open_case(version=2, asked_for=("The dose was plain to see.",))
    page = text_of(browse(ana).get(reverse("review:case", args=[claim(ana).pk])))
    assert "Changes requested for version 2" in page
    assert "The dose was plain to see." in page


# No input becomes markup
# ----------------------------------------------------------------------------------------------

EVIL = "<script>alert('x')</script><img src=x onerror=alert(1)>\"'"


@pytest.mark.django_db
def test_a_title_longer_than_its_column_shows_that_it_was_cut() -> None:
    case = open_case(title="severe pain " * 50)
    assert case.title.endswith("severe…")
    assert len(case.title) <= limits.TITLE


def evil_case(**fields: Any) -> Any:
    """A case with markup in every text."""
    turns = (Turn(EVIL, f"before {EVIL}"), Turn("assistant", "Well."))
    return open_case(
        title=EVIL,
        blocks=(
            Text(EVIL, EVIL),
            Text(EVIL, EVIL, tone="question"),
            Dialogue(EVIL, turns),
            Diff(EVIL, turns, (Turn(EVIL, f"after {EVIL}"), Turn("assistant", EVIL))),
            Table(EVIL, (EVIL,), ((EVIL,),), tone="trap"),
            Table(EVIL, (EVIL,), ((EVIL,),)),
            Image(EVIL, "data:image/png;base64,AAAA", EVIL),
        ),
        form=Form(
            questions=tuple(Question(question.key, EVIL, EVIL, question.choices) for question in FORM.questions),
            rubrics=(RubricText("R1", f"{EVIL} R1", (EVIL,)), RubricText("R2", f"{EVIL} R2", (EVIL,))),
        ),
        asked_for=(EVIL,),
        language='en"><script>',
        **fields,
    )


def assert_clean(page: Page) -> None:
    """No markup comes from data, and the CSP blocks nothing: no inline script, style, handlers."""
    assert page.status_code == 200
    for tag, attrs in Elements(page).tags:
        assert tag != "script" or attrs.get("src"), "inline script"
        assert attrs.get("src") != "x"
        assert "style" not in attrs, tag
        assert not [name for name in attrs if name.startswith("on")], (tag, attrs)


def test_untrusted_text_stays_text_on_every_page(browse: Browse, adela: User, bo: User) -> None:
    mallory = account("mallory", first_name=EVIL[:100], hospital=EVIL, specialty=EVIL)
    evil_case()
    client = browse(mallory)
    assignment = claim(mallory)
    typed = correction(EVIL, reason=EVIL, change_reason=EVIL)
    post(client, "draft", assignment, typed)
    workbench = client.get(reverse("review:case", args=[assignment.pk]))
    assert text_of(workbench).count("&lt;script&gt;alert(&#x27;x&#x27;)&lt;/script&gt;") > 20
    pages = [workbench, client.get(reverse("review:workbench"))]
    pages.append(post(client, "draft", assignment, typed, revision="1", headers=HTMX))
    submit(assignment, typed)
    review = Review.objects.get()
    second = claim(bo)
    submit(second, approval())
    pages += [
        client.get(reverse("review:mine")),
        client.get(reverse("review:mine-detail", args=[review.pk])),
        browse(bo).get(reverse("review:case", args=[second.pk])),
    ]
    admin = browse(adela)
    pages += [
        admin.get(reverse("review:overview")),
        admin.get(reverse("review:cases"), {"text": "<script>", "benchmark": EVIL, "state": EVIL, "sort": EVIL}),
        admin.get(reverse("review:cases"), {"text": "<script>"}),
        admin.get(reverse("review:history", args=[review.case_id])),
        admin.get(reverse("review:people")),
        admin.get(reverse("review:person", args=[mallory.pk])),
    ]
    for page in pages:
        assert_clean(page)


def test_images_are_embedded_as_data(browse: Browse, ana: User) -> None:
    evil_case()
    page = Elements(browse(ana).get(reverse("review:case", args=[claim(ana).pk])))
    images = [attrs for tag, attrs in page.tags if tag == "img" and (attrs["src"] or "").startswith("data:")]
    assert [(image["src"], image["alt"]) for image in images] == [("data:image/png;base64,AAAA", EVIL)]


def test_radio_buttons_choose_between_the_three_views_of_a_change(browse: Browse, ana: User) -> None:
    before, after = (Turn("user", "I take 5 mg."),), (Turn("user", "I take 50 mg."), Turn("user", "Well?"))
    open_case(blocks=(Diff("Conversation", before, after),))
    page = browse(ana).get(reverse("review:case", args=[claim(ana).pk]))
    assert "<del>5</del><ins>50</ins>" in text_of(page)
    assert "turn added" in text_of(page)
    assert [attrs["value"] for attrs in Elements(page).named("view-1")] == ["shown", "changes", "source"]


# The admin's pages
# --------------------------------------------------------------------------------------------------


def test_the_funnel_counts_cases_and_links_to_the_board(browse: Browse, ana: User, adela: User) -> None:
    open_case(1)
    case_in_secondary(ana, number=2)
    client = browse(adela)
    links = dict(re.findall(r'funnel__count" href="([^"]+)">(\d+)<', text_of(client.get(reverse("review:overview")))))
    assert links == {
        "/review/cases/?": "2",
        **{
            f"/review/cases/?state={state}": "1" if state in ("primary", "secondary") else "0"
            for state in State
            if state != State.WITHDRAWN
        },
    }
    board = text_of(client.get("/review/cases/?state=secondary"))
    assert len(re.findall(r"/review/cases/(\d+)/", board)) == 1
    assert re.findall(r'badge--(\w+)">([^<]+)<', board) == [("secondary", "secondary")]


def test_the_board_filters_sorts_and_pages(browse: Browse, adela: User) -> None:
    for number in range(1, 54):
        open_case(number, benchmark="other" if number == 7 else "invented")
    client = browse(adela)

    def titles(**query: str) -> list[str]:
        return re.findall(r">(Case \d+)</a>", text_of(client.get(reverse("review:cases"), query)))

    assert titles()[:2] == ["Case 53", "Case 52"]
    assert titles(cursor="50") == ["Case 3", "Case 2", "Case 1"]
    assert titles(benchmark="other") == ["Case 7"]
    assert titles(text="Case 5") == ["Case 53", "Case 52", "Case 51", "Case 50", "Case 5"]
    assert titles(sort="title")[:3] == ["Case 1", "Case 10", "Case 11"]
    assert titles(sort="password", cursor="-1", state="no such") == titles(), "unknown filters are ignored"
    page = text_of(client.get(reverse("review:cases"), {"text": "Case"}))
    assert 'href="?text=Case&amp;cursor=50"' in page, "the filter stays in the address"


def test_the_history_shows_names_reviews_and_events(browse: Browse, ana: User, bo: User, adela: User) -> None:
    case = case_in_adjudication(ana, bo)
    open_case(version=2)
    page = text_of(browse(adela).get(reverse("review:history", args=[case.pk])))
    for expected in (
        "Ana Alves",
        "Bo Berg",
        "Nobody would ask this.",
        "Opened",
        "Moved to the next stage",
        "Version 2",
        "Adjudicator 2",
    ):
        assert expected in page


def test_withdrawing_needs_a_reason_and_closes_the_case(browse: Browse, adela: User) -> None:
    case = open_case()
    client = browse(adela)
    address = reverse("review:withdraw", args=[case.pk])
    assert client.post(address, {"reason": " "}).status_code == 422
    case.refresh_from_db()
    assert case.state == State.PRIMARY
    page = client.post(address, {"reason": "The licence forbids it."}, follow=True)
    assert "The licence forbids it." in text_of(page)
    case.refresh_from_db()
    assert case.state == State.WITHDRAWN
    assert client.post(address, {"reason": "again"}).status_code == 409


def test_the_case_with_the_highest_priority_is_claimed_first(browse: Browse, adela: User, ana: User) -> None:
    open_case(1)
    urgent = open_case(2)
    client = browse(adela)
    assert client.post(reverse("review:priority", args=[urgent.pk]), {"priority": "lots"}).status_code == 422
    assert client.post(reverse("review:priority", args=[urgent.pk]), {"priority": 2**15}).status_code == 422
    client.post(reverse("review:priority", args=[urgent.pk]), {"priority": 2**15 - 1})
    assert claim(ana).case == urgent


def test_a_new_account_can_sign_in(browse: Browse, adela: User) -> None:
    client = browse(adela)
    typed = {"username": "gita", "role": "physician", "languages": "en, ZH", "hospital": "St. Elsewhere"}
    weak = client.post(reverse("review:person-new"), {**typed, "password": "short"})
    assert weak.status_code == 422
    assert "at least 10 characters" in text_of(weak)
    odd = client.post(reverse("review:person-new"), {**typed, "password": PASSWORD, "languages": "english!"})
    assert odd.status_code == 422
    assert not User.objects.filter(username="gita").exists()
    client.post(reverse("review:person-new"), {**typed, "password": PASSWORD})
    gita = User.objects.get(username="gita")
    assert (gita.role, gita.languages, gita.is_staff, gita.is_superuser) == (
        UserRole.PHYSICIAN,
        ["en", "zh"],
        False,
        False,
    )
    signed_in = Client().post(reverse("account_login"), {"login": "gita", "password": PASSWORD}, follow=True)
    assert signed_in.context["user"] == gita


def test_closing_an_account_ends_its_session_and_it_can_be_reopened(browse: Browse, adela: User, ana: User) -> None:
    session, admin = browse(ana), browse(adela)
    address = reverse("review:person-active", args=[ana.pk])
    admin.post(address, {"active": "0"})
    assert session.get(reverse("review:workbench")).status_code == 302
    admin.post(address, {"active": "1"})
    assert session.get(reverse("review:workbench")).status_code == 302, "the old session does not revive"
    ana.refresh_from_db()
    assert browse(ana).get(reverse("review:workbench")).status_code == 200


def test_nobody_can_close_their_own_account(browse: Browse, adela: User) -> None:
    assert browse(adela).post(reverse("review:person-active", args=[adela.pk]), {"active": "0"}).status_code == 403
    adela.refresh_from_db()
    assert adela.is_active


def test_a_new_password_ends_old_sessions(browse: Browse, adela: User, ana: User) -> None:
    session, admin = browse(ana), browse(adela)
    address = reverse("review:person-password", args=[ana.pk])
    assert admin.post(address, {"password": "password12"}).status_code == 422
    admin.post(address, {"password": "quite-another-password"})
    ana.refresh_from_db()
    assert ana.check_password("quite-another-password")
    assert session.get(reverse("review:workbench")).status_code == 302


@pytest.mark.parametrize("model", ["case", "assignment", "review", "event"])
def test_djangos_admin_shows_rows_but_cannot_change_them(model: str, browse: Browse, ana: User, adela: User) -> None:
    case_in_secondary(ana)
    User.objects.filter(pk__in=[ana.pk, adela.pk]).update(is_staff=True, is_superuser=True)
    adela.refresh_from_db()
    ana.refresh_from_db()
    pk = (
        {"case": Case, "assignment": Assignment, "review": Review, "event": Event}[model]
        ._default_manager.earliest("pk")
        .pk
    )
    addresses = [f"/admin/review/{model}/", f"/admin/review/{model}/{pk}/change/"]
    assert [browse(adela).get(address).status_code for address in addresses] == [200, 200]
    assert browse(adela).post(addresses[1], {"state": "approved"}).status_code == 403
    assert browse(adela).get(f"/admin/review/{model}/{pk}/delete/").status_code == 403
    assert [browse(ana).get(address).status_code for address in addresses] == [403, 403], (
        "physicians have no access, not even superusers"
    )


def test_djangos_admin_shows_no_token_and_no_draft(browse: Browse, ana: User) -> None:
    open_case()
    assignment = claim(ana)
    superuser = User.objects.create_superuser("root", password=PASSWORD)
    page = browse(superuser).get(f"/admin/review/assignment/{assignment.pk}/change/")
    assert str(assignment.token) not in text_of(page)
    assert browse(superuser).get("/admin/review/draft/").status_code == 404


# Number of queries
# --------------------------------------------------------------------------------------------------


def test_a_long_history_takes_as_many_queries_as_a_short_one(
    browse: Browse, ana: User, bo: User, chen: User, dina: User, adela: User, django_assert_num_queries: Any
) -> None:
    client = browse(adela)
    short = open_case(1)
    client.get(reverse("review:history", args=[short.pk]))  # the first request also loads the session
    with CaptureQueriesContext(connection) as few:
        client.get(reverse("review:history", args=[short.pk]))
    count = len(few)  # the next request empties the log
    services.withdraw(short.pk, actor=adela, reason="Only one case, then.")
    long = case_in_adjudication(ana, bo, number=2)
    claim_and_submit(chen, approval())
    claim_and_submit(dina, rejection())
    client.get(reverse("review:history", args=[long.pk]))  # the first within an hour is recorded
    with django_assert_num_queries(count):
        client.get(reverse("review:history", args=[long.pk]))


# Forms
# --------------------------------------------------------------------------------------------------


def post_data(typed: dict[str, str]) -> QueryDict:
    """The fields as Django parses them from a posted form."""
    data = QueryDict(mutable=True)
    data.update(typed)
    return data


@pytest.mark.parametrize("answers", [approval(), rejection(), correction("Another wording.\nIn two lines.")])
def test_a_form_posts_back_the_answers_that_filled_it(answers: Answers) -> None:
    filled = fill_form(FORM, answers)
    rows = [*filled.questions, *filled.rubrics]
    controls = [filled.fields[name] for name in ("verdict", "reason", "change_reason")]
    controls += [control for row in rows for control in (row.choice, row.note, row.wording) if control is not None]
    typed = {
        control.name: next((option.value for option in control.options if option.chosen), "")
        if control.options
        else control.value.replace("\n", "\r\n")
        for control in controls
    }
    assert answers_from_post(FORM, post_data(typed)) == answers


def test_the_line_ends_of_a_browser_do_not_change_a_wording() -> None:
    form = Form((), (RubricText("R1", "One.\nTwo."),))
    answers = answers_from_post(form, post_data({"rubric.R1": "corrected", "rubric.R1.wording": "One.\r\nTwo."}))
    assert [problem.code for problem in problems(form, answers)] == ["wording-unchanged", "verdict-missing"]


def test_fields_that_are_not_in_the_form_are_ignored() -> None:
    answers = answers_from_post(FORM, post_data({"question.other": "yes", "rubric.R9": "adequate", "reason": "a\0b"}))
    assert set(answers.questions) == {"natural", "aligned"}
    assert set(answers.rubrics) == {"R1", "R2"}
    assert answers.reason == "ab"


def test_only_an_offered_wording_can_be_adopted() -> None:
    offers = {"R1": [Offer("adopt.primary", "as the first reviewer worded it", "Another wording.")]}
    typed = {"rubric.R1": "adopt.primary", "rubric.R2": "adopt.primary"}
    answers = answers_from_post(FORM, post_data(typed), offers)
    assert answers.rubrics["R1"] == RubricAnswer("corrected", "Another wording.")
    assert [problem.code for problem in problems(FORM, answers) if problem.field == "rubric.R2"] == ["unknown-value"]
