"""Guidelines in versions, and a discussion that reveals nothing that is still sealed."""

import re
from functools import partial
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone, translation
from django.utils.text import capfirst

from generation.notifications import sending
from mhb_site.server import retention
from mhb_site.sign_in import own_data
from review import errors
from review.assignments import claims
from review.common import notifications
from review.discussion import guidelines, remarks
from review.discussion import notices as discussion_notices
from review.models import Case, Delivery, Event, Notice, Occasion, Remark, User, Webhook
from review.people import accounts
from review.rules import limits
from review.rules.blocks import Diff, Text, Turn, passages
from review.rules.permissions import UserRole
from review.rules.state_machine import State
from review.templatetags.review_talk import markdown
from tests.conftest import RunConcurrently
from tests.review.approve import approval_of
from tests.review.factories import (
    FIRST_LOOK_BLOCKS,
    FIRST_LOOK_POLICY,
    FULL_FORM,
    account,
    approval,
    case_in_adjudication,
    case_in_secondary,
    claim,
    claim_and_submit,
    open_case,
    rejection,
    submit,
    take_first_look,
)
from tests.review.pages import HTMX, Elements

pytestmark = pytest.mark.django_db


def post_remark(author: User, case: Case, text: str = "The dose is off.", **place: object) -> int:
    """Post a remark and return its primary key; `place` names a quoted passage."""
    return remarks.remark(author, case.pk, text, **place).pk  # type: ignore[arg-type]


def readable_remarks(user: User, case: Case) -> set[int]:
    """The primary keys of the remarks that the user may read."""
    return set(remarks.remarks_shown_to(user, case).values_list("pk", flat=True))


def test_a_guideline_is_changed_by_a_new_version_and_never_in_place(adela: User, ana: User) -> None:
    first = guidelines.write_guideline(adela, benchmark="mhb", stage=State.PRIMARY, text="Read *twice*.")
    again = guidelines.write_guideline(adela, benchmark="mhb", stage=State.PRIMARY, text="Read *twice*.")
    second = guidelines.write_guideline(adela, benchmark="mhb", stage=State.PRIMARY, text="Read once.")
    assert (first.version, again.version, second.version) == (1, 1, 2)
    assert guidelines.guideline("mhb", State.PRIMARY) == second
    assert guidelines.guideline("mhb", State.SECONDARY) is None
    assert [version.text for version in guidelines.guideline_versions("mhb", State.PRIMARY)] == [
        "Read once.",
        "Read *twice*.",
    ]
    with pytest.raises(errors.NotAllowed):
        guidelines.write_guideline(ana, benchmark="mhb", stage=State.PRIMARY, text="Mine.")
    with pytest.raises(errors.EmptyText):
        guidelines.write_guideline(adela, benchmark="mhb", stage=State.PRIMARY, text="  ")


def test_a_review_records_the_guideline_it_followed(adela: User, ana: User, bo: User, client: Client) -> None:
    case = case_in_secondary(ana)  # nothing is published: the built-in text applies
    guidelines.write_guideline(adela, benchmark=case.benchmark, stage=State.SECONDARY, text="Read *twice*.")
    guidelines.write_guideline(adela, benchmark=case.benchmark, stage=State.SECONDARY, text="Read once.")
    claim_and_submit(bo, approval())
    guidelines.write_guideline(adela, benchmark=case.benchmark, stage=State.SECONDARY, text="Read.")
    assert list(case.reviews.order_by("pk").values_list("guideline__version", flat=True)) == [None, 2]
    events = case.events.filter(kind=Event.Kind.SUBMITTED).order_by("pk")
    assert [event.data["guideline"] for event in events] == [None, 2]
    client.force_login(adela)
    detail = client.get(reverse("api:case", args=[case.pk])).json()
    assert [review["guideline"] for review in detail["reviews"]] == [None, 2]


def test_markdown_is_sanitized() -> None:
    html = markdown('# Head\n<script>alert(1)</script>\n\n[go](javascript:alert(1)) ![x](x" onerror="y)', 3)
    assert "<h3>Head</h3>" in html  # below the headings of the surrounding page
    assert "<script" not in html
    assert 'href="javascript' not in html
    assert 'onerror="' not in html


def test_only_participants_and_admins_may_remark_and_the_trail_records_it(adela: User, ana: User, bo: User) -> None:
    case = open_case()
    claim(ana)
    remark = post_remark(ana, case)
    assert Event.objects.filter(case=case, kind=Event.Kind.REMARKED, actor=ana, data__remark=remark).exists()
    with pytest.raises(errors.NotAssigned):
        post_remark(bo, case)
    with pytest.raises(errors.EmptyText):
        post_remark(ana, case, "  ")
    post_remark(adela, case, "An admin may.")


def test_a_physician_no_longer_takes_part(adela: User, ana: User) -> None:
    case = open_case(1)
    claim_and_submit(ana, approval())
    about_all = post_remark(adela, case, "Look, @ana.")
    assert readable_remarks(ana, case) == {about_all}
    ana = accounts.set_role(ana.pk, UserRole.RESEARCHER, actor=adela)
    with pytest.raises(errors.NotAssigned):
        post_remark(ana, case)
    assert readable_remarks(ana, case) == set()
    assert discussion_notices.notices_for(ana) == []


def test_a_passage_is_found_in_the_text_or_refused(ana: User) -> None:
    case = open_case()
    claim(ana)
    first = next(passages(case.frozen.blocks))
    text, quote = first.text, first.text[2:9].strip()
    anchor = remarks.remark(ana, case.pk, "Here.", quote=quote).anchor
    assert anchor is not None
    assert (anchor["block"], anchor["turn"]) == (first.block, first.turn)
    assert text[anchor["start"] : anchor["end"]] == quote
    with pytest.raises(errors.PassageUnknown):
        post_remark(ana, case, quote="these words do not stand there")


def test_a_remark_is_sealed_like_the_review_of_its_author(adela: User, ana: User, bo: User) -> None:
    case = open_case()
    first = claim(ana)
    anas = post_remark(ana, case, "I doubt the trap. @bo @adela")
    answers = approval_of(case.frozen.form)
    submit(first, answers)
    second = claim(bo)
    assert readable_remarks(bo, case) == set(), "the secondary is blind until they commit"
    bos = post_remark(bo, case, "Looks fine.")
    assert readable_remarks(ana, case) == {anas}
    submit(second, answers)
    assert readable_remarks(bo, case) == {anas, bos}
    assert readable_remarks(adela, case) == {anas, bos}


def test_a_remark_of_a_physician_who_becomes_an_admin_stays_sealed(adela: User, ana: User, bo: User) -> None:
    case = open_case()
    submit(claim(ana), approval_of(case.frozen.form))
    post_remark(ana, case, "The dose is impossible, @bo.")
    ana = accounts.set_role(ana.pk, UserRole.ADMIN, actor=adela)
    second = claim(bo)
    post_remark(ana, case, "I meant the second one, @bo.")
    assert readable_remarks(bo, case) == set()
    assert discussion_notices.notices_for(bo) == []
    said = post_remark(adela, case, "Take your time, @bo.")
    assert readable_remarks(bo, case) == {said}
    assert [notice.remark_id for notice in discussion_notices.notices_for(bo)] == [said]
    submit(second, approval_of(case.frozen.form))
    assert len(readable_remarks(bo, case)) == 3


def test_a_physician_is_offered_the_names_of_admins_only(
    client: Client, adela: User, ana: User, bo: User, chen: User
) -> None:
    case = open_case()
    submit(claim(ana), approval_of(case.frozen.form))
    claim(bo)
    names = reverse("review:names", args=[case.pk])
    for reader, offered in ((ana, ["@adela"]), (adela, ["@ana", "@bo"])):
        client.force_login(reader)
        page = client.get(names).content.decode()
        assert re.findall(r'data-mention="(@\w+)"', page) == offered
    client.force_login(chen)
    assert client.get(names).status_code == 404


def test_a_physician_is_told_when_a_mention_may_reach_nobody(client: Client, adela: User, ana: User, bo: User) -> None:
    """Without saying whether the colleague works on the case."""
    case = open_case()
    claim(ana)
    address, said = reverse("review:remark", args=[case.pk]), "Notified only if they work on this case: @bo<"
    client.force_login(ana)
    for text, tells in (("@bo, what do you say?", True), ("@adela, what do you say?", False)):
        for headers in ({"HX-Request": "true"}, {}):
            page = client.post(address, {"text": text}, follow=True, headers=headers).content.decode()
            assert (said in " ".join(page.split()).replace(" <", "<")) is tells, (text, headers)


@pytest.mark.parametrize(("language", "colon"), [("en", ": "), ("zh-hans", "：")])
def test_a_notice_uses_the_colon_of_the_readers_language(
    client: Client, adela: User, ana: User, language: str, colon: str
) -> None:
    case = open_case()
    submit(claim(ana), approval_of(case.frozen.form))
    post_remark(ana, case, "What do you say, @adela?")
    [notice] = discussion_notices.notices_for(adela)
    client.force_login(adela)
    with translation.override(language):
        page = client.get(reverse("review:notices"), headers={"Accept-Language": language}).content.decode()
        kind = capfirst(notice.get_kind_display())
    assert f"{kind}{colon}{case.title}" in page


def test_a_comment_from_an_older_process_is_shown_after_the_upgrade(
    adela: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It goes on beside new ones, and does not know that a case says whether it is discussed."""
    case = open_case()
    Remark.objects.create(case=case, author=adela, text="Please look.", at=timezone.now())
    assert remarks.discussion(adela, case) == []
    monkeypatch.setattr(retention, "_next_round", 0.0)
    retention.forget_daily()
    case.refresh_from_db()
    [shown] = remarks.discussion(adela, case)
    assert shown.remark.text == "Please look."


def test_a_mention_is_shown_once_the_remark_may_be_read(adela: User, ana: User, bo: User) -> None:
    case = open_case()
    submit(claim(ana), approval_of(case.frozen.form))
    second = claim(bo)
    post_remark(ana, case, "What do you say, @bo? And @adela? And @nobody? Mail me at x@bo.example")
    assert Notice.objects.count() == 2
    assert [notice.user for notice in discussion_notices.notices_for(adela)] == [adela]
    assert discussion_notices.notices_for(bo) == []
    submit(second, approval_of(case.frozen.form))
    [notice] = discussion_notices.notices_for(bo)
    discussion_notices.mark_read(bo, notice.pk)
    assert discussion_notices.notices_for(bo) == []
    with pytest.raises(errors.NotAssigned):
        discussion_notices.mark_read(ana, notice.pk)


def test_a_reported_problem_is_read_by_admins_and_by_no_physician_who_was_one(adela: User, ana: User) -> None:
    case = open_case()
    claims.report_problem(ana, claim(ana).pk, "The trap is true.")
    [notice] = discussion_notices.notices_for(adela)
    accounts.set_role(adela.pk, UserRole.PHYSICIAN, actor=account("keeper", UserRole.ADMIN))
    adela.refresh_from_db()
    assert discussion_notices.notices_for(adela) == []
    with pytest.raises(errors.NotAssigned):
        discussion_notices.mark_read(adela, notice.pk)
    assert case.title not in str(own_data.collect(adela))


def test_a_sealed_mention_is_told_to_nobody(adela: User, ana: User, bo: User, settings: Any) -> None:
    settings.MHB_EMAILS = True
    occasions = ["mentioned", "dissent"]
    hook = Webhook.objects.create(name="hook", url="https://hooks.example", secret_env="X", occasions=occasions)
    User.objects.filter(pk__in=(ana.pk, bo.pk, adela.pk)).update(email="somebody@example.org")
    case = open_case()
    submit(claim(ana), approval_of(case.frozen.form))
    claim(bo)
    post_remark(ana, case, "What do you say, @bo?")
    assert not hook.deliveries.exists(), "a channel may be read by the second reviewer"
    post_remark(ana, case, "And @adela?")
    post_remark(bo, case, "I cannot tell yet, @ana.")
    sealed = Notice.objects.get(user=ana, remark__author=bo)
    with pytest.raises(errors.NotAssigned):
        discussion_notices.mark_read(ana, sealed.pk)
    assert own_data.collect(ana)["notifications"] == []
    told = Delivery.objects.filter(occasion="mentioned", webhook=None).values_list("person__username", flat=True)
    assert list(told) == ["adela"], "the two reviewers do not know of each other yet"
    post_remark(adela, case, "Take your time, @ana.")
    message = Delivery.objects.get(occasion="mentioned", person=ana)
    assert str(case.pk) not in sending.email_of(message)[1].replace(f"/{message.key}", "")
    path = reverse("review:history", args=[case.pk])
    notifications.tell(Occasion.DISSENT, case=case.pk, path=path)
    for sent in map(sending.content, hook.deliveries.all()):
        assert (sent["url"], "case" in sent) == ("", False)


def test_pages_publish_guidelines_and_post_remarks(client: Client, adela: User, ana: User, rui: User) -> None:
    case = open_case()
    client.force_login(adela)
    address = reverse("review:guideline-edit", args=[case.benchmark, "primary"])
    assert client.post(address, {"text": "Read **slowly**."}, follow=True).status_code == 200
    assert client.post(address, {"text": ""}).status_code == 422
    assert client.get(reverse("review:guideline-edit", args=[case.benchmark, "approved"])).status_code == 404
    client.force_login(ana)
    assert "<strong>slowly</strong>" in client.get(reverse("review:guidelines")).content.decode()
    assert client.get(address).status_code == 403
    assignment = claim(ana)
    page = client.post(reverse("review:remark", args=[case.pk]), {"text": "<b>bold</b>"}, follow=True)
    assert page.redirect_chain[-1][0].startswith(reverse("review:case", args=[assignment.pk]))
    assert "&lt;b&gt;bold" in page.content.decode()
    section = f"{case.benchmark}-primary"  # which the page of the case loads when it is opened there
    assert f'hx-select="#{section}"' in page.content.decode()
    guidelines_page = client.get(reverse("review:guidelines")).content.decode()
    assert "<strong>slowly</strong>" in guidelines_page.partition(f'id="{section}"')[2].partition("</section>")[0]
    client.force_login(rui)
    assert client.get(reverse("review:guidelines")).status_code == 403


def mentions_count(user: User) -> int:
    """The number of notices about mentions of the user."""
    return Notice.objects.filter(user=user, kind=Notice.Kind.MENTION).count()


@pytest.mark.parametrize("text", ["I doubt it, @bo.", "请@bo看", "@Bo", "(@bo)", "@bo, @adela", "First @bo… then I."])
def test_a_mention_is_found_whatever_surrounds_it(ana: User, bo: User, text: str) -> None:
    case = case_in_secondary(ana)
    claim(bo)
    post_remark(ana, case, text)
    assert mentions_count(bo) == 1


@pytest.mark.parametrize("text", ["x@bo.example", "@bo.example", "@bonnie", "@bo-li", "@@bo", "@ana"])
def test_a_similar_name_is_not_a_mention(ana: User, bo: User, text: str) -> None:
    case = case_in_secondary(ana)
    claim(bo)
    post_remark(ana, case, text)
    assert Notice.objects.count() == 0


def test_the_longer_of_two_matching_names_is_mentioned(ana: User, bo: User) -> None:
    longer = account("bo-li", UserRole.ADMIN)
    case = case_in_secondary(ana)
    claim(bo)
    post_remark(ana, case, "@bo-li?")
    assert (mentions_count(longer), mentions_count(bo)) == (1, 0)


def test_sealed_mentions_do_not_crowd_out_a_readable_notice(
    adela: User, ana: User, bo: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "COMMENTS", 1_000)
    case = case_in_secondary(ana)
    claim(bo)
    post_remark(adela, case, "@bo, from the admin.")
    for _ in range(3 * discussion_notices.MAX_SHOWN):
        post_remark(ana, case, "@bo, sealed.")
    assert [notice.remark.author for notice in discussion_notices.notices_for(bo) if notice.remark] == [adela]


def test_a_refused_remark_keeps_what_was_typed(client: Client, ana: User, bo: User) -> None:
    case = open_case()
    claim(ana)
    client.force_login(ana)
    address = reverse("review:remark", args=[case.pk])
    typed = {"text": "My <long> thought.", "quote": "words that are not there"}
    for headers in ({}, HTMX):
        answer = client.post(address, typed, headers=headers)
        page = answer.content.decode()
        assert answer.status_code == 422
        assert "My &lt;long&gt; thought." in page
        assert "words that are not there</textarea>" in page
        assert 'id="quote-error"' in page
        assert errors.PassageUnknown().message in page
        assert 'id="talk"' in page
    blank = client.post(address, {"text": "  ", "quote": "May I"}, headers=HTMX)
    assert blank.status_code == 422
    assert 'id="remark-error"' in blank.content.decode()
    client.force_login(bo)
    assert client.post(address, typed).status_code == 404, "nobody else learns anything about the case"


CHANGED = (
    Text("Report", "Findings: a nodule.\nNo effusion."),
    Diff(
        "Conversation",
        (Turn("user", "Gone."), Turn("user", "I take 5 mg.")),
        (Turn("user", "I take 50 mg."), Turn("user", "Bye now.")),
    ),
)


@pytest.mark.parametrize(
    ("quote", "passage", "place"),
    [
        ("a nodule.\r\nNo", "", (0, 0, None)),
        ("5 mg", "", (1, 1, True)),
        ("50 mg", "", (1, 0, None)),
        ("I take", "", (1, 0, None)),
        ("I take", "2.2.source", (1, 1, True)),
    ],
)
def test_every_passage_can_be_quoted_in_a_remark(
    ana: User, quote: str, passage: str, place: tuple[int, int, bool | None]
) -> None:
    case = open_case(blocks=CHANGED)
    claim(ana)
    anchor = remarks.remark(ana, case.pk, "Here.", quote=quote, passage=passage).anchor
    assert anchor is not None
    assert (anchor["block"], anchor["turn"], anchor.get("source")) == place


def test_every_passage_is_marked_up_on_the_page(client: Client, ana: User) -> None:
    case = open_case(blocks=CHANGED)
    assignment = claim(ana)
    client.force_login(ana)
    page = client.get(reverse("review:case", args=[assignment.pk]))
    keys = [attrs["data-passage"] for _, attrs in Elements(page).tags if "data-passage" in attrs]
    assert set(keys) == {passage.key for passage in passages(case.frozen.blocks)}
    assert keys.count("2.2.source") == 2, "once in the changes and once in the source"


def test_hidden_text_cannot_be_guessed_by_quoting_it(ana: User) -> None:
    case = open_case(form=FULL_FORM, policy=FIRST_LOOK_POLICY, first_look=FIRST_LOOK_BLOCKS, blocks=CHANGED)
    assignment = claim(ana)
    with pytest.raises(errors.PassageUnknown):
        post_remark(ana, case, quote="a nodule")
    post_remark(ana, case, quote="tonight")
    take_first_look(assignment)
    post_remark(ana, case, quote="a nodule")


def test_a_guideline_changed_in_the_meantime_is_not_overwritten(client: Client, adela: User) -> None:
    case = open_case()
    client.force_login(adela)
    address = reverse("review:guideline-edit", args=[case.benchmark, "primary"])
    assert Elements(client.get(address)).named("base")[0]["value"] == "0"
    guidelines.write_guideline(adela, benchmark=case.benchmark, stage=State.PRIMARY, text="The other's.")
    write_late = client.post(address, {"text": "Mine, typed long.", "base": "0"})
    assert write_late.status_code == 409
    assert "Mine, typed long." in write_late.content.decode()
    assert errors.StaleGuideline().message in write_late.content.decode()
    assert guidelines.guideline(case.benchmark, State.PRIMARY).text == "The other's."  # type: ignore[union-attr]
    base = Elements(write_late).named("base")[0]["value"]
    assert client.post(address, {"text": "Mine, typed long.", "base": base}).status_code == 302
    assert guidelines.guideline(case.benchmark, State.PRIMARY).text == "Mine, typed long."  # type: ignore[union-attr]


def test_admins_who_publish_at_once_get_consecutive_versions(run_concurrently: RunConcurrently) -> None:
    admins = [account(f"admin-{number}", UserRole.ADMIN) for number in range(6)]

    def write(admin: User) -> int:
        return guidelines.write_guideline(admin, benchmark="mhb", stage=State.PRIMARY, text=admin.username).version

    assert sorted(run_concurrently([partial(write, admin) for admin in admins])) == [1, 2, 3, 4, 5, 6]
    assert [
        isinstance(outcome, errors.StaleGuideline)
        for outcome in run_concurrently([partial(write_late, admin) for admin in admins])
    ] == [True] * 6


def write_late(admin: User) -> int:
    """Publish on top of a version that is no longer the latest."""
    return guidelines.write_guideline(admin, benchmark="mhb", stage=State.PRIMARY, text="Late.", base=1).version


def test_both_adjudicators_are_notified_of_the_discussion(ana: User, bo: User, chen: User, dina: User) -> None:
    case_in_adjudication(ana, bo)
    first, second = claim(chen), claim(dina)
    submit(first, approval())
    assert not Notice.objects.exists()
    submit(second, rejection())
    notices = Notice.objects.filter(kind=Notice.Kind.DISCUSSION)
    assert {notice.user for notice in notices} == {chen, dina}
    assert [notice.kind for notice in discussion_notices.notices_for(chen)] == ["discussion"]


def test_a_notification_leads_to_what_it_says(
    client: Client, adela: User, ana: User, bo: User, chen: User, dina: User
) -> None:
    def opened(reader: User, kind: Notice.Kind) -> tuple[str, str]:
        """(page, place on it) of the newest notification of this kind."""
        client.force_login(reader)
        notice = Notice.objects.filter(user=reader, kind=kind).latest("pk")
        address = client.post(reverse("review:notice", args=[notice.pk]))["Location"]
        page, place = address.split("#")
        assert f'id="{place}"' in client.get(page).content.decode()
        return page, place

    case = case_in_adjudication(ana, bo)
    held = claim(chen)
    remarks.remark(adela, case.pk, "@chen, read the guideline.")
    remarks.remark(chen, case.pk, "@adela, I did.")
    claims.report_problem(chen, held.pk, "The text is cut off.")
    history, own = reverse("review:history", args=[case.pk]), reverse("review:case", args=[held.pk])
    assert opened(chen, Notice.Kind.MENTION) == (own, "talk")
    assert opened(adela, Notice.Kind.MENTION) == (history, "talk")
    assert opened(adela, Notice.Kind.PROBLEM) == (history, "trail")
    submit(held, approval())
    submit(claim(dina), rejection())
    assert opened(chen, Notice.Kind.DISCUSSION) == (own, "answers")
