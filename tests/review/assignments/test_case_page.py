"""The case page: two steps, evidence, harm, reasons, own rubrics, what a version changed, taking back, drafts that are kept."""

from dataclasses import replace
from typing import Any
from urllib.parse import quote

import pytest
from django.http import QueryDict
from django.urls import reverse

from review.answers.answer_form import fill_form
from review.answers.posted_answers import answers_from_post, without_blank_rows
from review.answers.side_by_side import plain_text, version_changes
from review.cases import services
from review.models import Draft, FirstLook, Review, User
from review.rules.blocks import Dialogue, Diff, Text, Turn
from review.rules.case_spec import answers_from_json
from review.rules.questions import AddedRubric, Answer, Answers, Citation, RubricAnswer
from tests.review.factories import (
    CITATION,
    FIRST_LOOK_BLOCKS,
    FIRST_LOOK_POLICY,
    FORM,
    FULL_FORM,
    approval,
    case_in_secondary,
    case_spec,
    claim,
    claim_and_submit,
    full_approval,
    full_rejection,
    open_case,
    rejection,
    submit,
    take_first_look,
)
from tests.review.pages import HTMX, Browse, Elements, checked_value, post, text_of

TRAPS = (Text("Traps", "Neurostatin does not exist."),)


def whole_case(**more: Any) -> Any:
    return open_case(
        form=FULL_FORM, policy=FIRST_LOOK_POLICY, first_look=FIRST_LOOK_BLOCKS, **{"blocks": TRAPS, **more}
    )


# Two steps ------------------------------------------------------------------------------------------------------------


def test_the_first_step_shows_the_text_alone_and_asks_nothing_else(browse: Browse, ana: User) -> None:
    whole_case(asked_for=("The trap was plain to see.",))
    page = browse(ana).get(reverse("review:case", args=[claim(ana).pk]))
    assert "May I take Neurostatin tonight?" in text_of(page)
    for hidden in ("does not exist", "plain to see", "Gives no dose", "Is it definitely false?", 'name="verdict"'):
        assert hidden not in text_of(page), hidden
    assert "Reveal traps" in text_of(page)


def test_revealing_opens_the_rest_and_keeps_the_first_answers_for_good(browse: Browse, ana: User) -> None:
    whole_case()
    held, client = claim(ana), browse(ana)
    refused = post(client, "reveal", held, Answers())
    assert refused.status_code == 422
    assert [a["href"] for tag, a in Elements(refused).tags if a.get("href") == "#question-1-1"]
    assert not FirstLook.objects.exists()

    stiff = Answers({"natural": Answer("no", "Stiff.")})
    assert post(client, "reveal", held, stiff)["Location"] == reverse("review:case", args=[held.pk])
    page = client.get(reverse("review:case", args=[held.pk]))
    assert "does not exist" in text_of(page)
    assert "Stiff." in text_of(page)
    assert not Elements(page).named("question.natural"), "what was answered first is shown and not asked again"

    post(client, "submit", held, full_rejection(questions={"natural": Answer("yes"), "false": Answer("yes")}))
    assert answers_from_json(Review.objects.get().answers).questions["natural"] == Answer("no", "Stiff.")


def test_submitting_before_the_reveal_is_refused(browse: Browse, ana: User) -> None:
    whole_case()
    assert post(browse(ana), "submit", claim(ana), full_approval()).status_code == 409
    assert not Review.objects.exists()


def test_peeking_shows_the_first_look_of_the_next_case_and_takes_nothing(browse: Browse, ana: User, bo: User) -> None:
    case = whole_case()
    client = browse(ana)
    page = client.get(reverse("review:peek"))
    assert "May I take Neurostatin tonight?" in text_of(page)
    assert "does not exist" not in text_of(page)
    assert claim(bo).case == case
    assert client.get(reverse("review:peek")).status_code == 204
    open_case(2)  # asks for no first look: nothing of it is shown before it is taken
    assert client.get(reverse("review:peek")).status_code == 204


# Evidence, harm, reasons, own rubrics ---------------------------------------------------------------------------------


def revealed(ana: User, **more: Any) -> Any:
    whole_case(**more)
    held = claim(ana)
    take_first_look(held)
    return held


def test_rows_come_and_go_by_submit_buttons_and_keep_what_was_typed(browse: Browse, ana: User) -> None:
    held, client = revealed(ana), browse(ana)
    address = reverse("review:case", args=[held.pk])
    answer = post(client, "draft", held, full_approval(), do="add-citation")
    assert answer["Location"] == f"{address}#citation-2-reference"
    page = client.get(address)
    assert Elements(page).named("citation.1.passage")
    assert CITATION.passage in text_of(page)
    assert [a["value"] for a in Elements(page).named("citation.2.reference")] == [""]

    two = full_approval(citations=(CITATION, replace(CITATION, section="9.9")))
    post(client, "draft", held, two, do="remove-citation.1", revision="1")
    assert answers_from_json(Draft.objects.get().answers).citations == (two.citations[1],)

    assert post(client, "draft", held, full_approval(), do="add-rubric", revision="2")["Location"] == (
        f"{address}#added-1-criterion"
    )
    assert Elements(client.get(address)).named("added.1.severity")


def test_what_is_wrong_with_a_source_stands_at_its_field(browse: Browse, ana: User) -> None:
    held = revealed(ana)
    wrong = Citation("doi", "doi of something", "", "", "2999-01-01")
    page = post(browse(ana), "submit", held, full_approval(citations=(CITATION, CITATION, wrong)))
    assert page.status_code == 422
    elements = Elements(page)
    ids = elements.ids()
    assert len(ids) == len(set(ids))
    invalid = [attrs["name"] for _, attrs in elements.tags if attrs.get("aria-invalid") == "true"]
    assert invalid == ["citation.2.reference", *(f"citation.3.{part}" for part in ("reference", "passage", "read_on"))]
    links = [attrs.get("href") for tag, attrs in elements.tags if tag == "a"]
    assert {"#citation-2-reference", "#citation-3-read-on"} <= set(links)


def test_missing_evidence_leads_to_the_field_of_the_first_source(browse: Browse, ana: User) -> None:
    held = revealed(ana)
    page = post(browse(ana), "submit", held, full_approval(citations=()))
    assert page.status_code == 422
    assert [a["href"] for tag, a in Elements(page).tags if a.get("href") == "#citation-1-reference"]
    [field] = Elements(page).named("citation.1.reference")
    assert "autofocus" in field


def test_blank_rows_do_not_stand_in_the_way(browse: Browse, ana: User) -> None:
    held = revealed(ana)
    blank = Citation("guideline", "", "", "", "2020-01-15")
    typed = full_approval(citations=(blank, CITATION), added=(AddedRubric("  "),))
    assert post(browse(ana), "submit", held, typed).status_code == 302
    assert answers_from_json(Review.objects.get().answers).citations == (CITATION,)


def test_the_harm_scale_explains_its_levels(browse: Browse, ana: User) -> None:
    held = revealed(ana)
    page = browse(ana).get(reverse("review:case", args=[held.pk]))
    assert [attrs["value"] for attrs in Elements(page).named("rubric.R1.severity")] == ["none", "mild", "death"]
    assert "AHRQ Common Formats" in text_of(page)
    assert "the patient could die as a result" in text_of(page)


def test_a_rejection_is_coded_and_says_what_becomes_of_it(browse: Browse, ana: User) -> None:
    held, client = revealed(ana), browse(ana)
    page = post(client, "submit", held, full_rejection(code=""))
    assert page.status_code == 422
    assert "Choose the reason that fits best." in text_of(page)
    assert "Will be revised" in text_of(page)
    assert "Will be discarded" in text_of(page)
    post(client, "submit", held, full_rejection("disputed"))
    assert answers_from_json(Review.objects.get().answers).reason_code == "disputed"
    own = client.get(reverse("review:mine-detail", args=[Review.objects.get().pk]))
    for shown in ("Disputed", "harm: Mild", CITATION.reference):
        assert shown in text_of(own), shown


def test_a_rubric_is_taken_away_and_another_added(browse: Browse, ana: User) -> None:
    held = revealed(ana)
    rubrics = {"R1": RubricAnswer("removed", note="Twice."), "R2": RubricAnswer("adequate", severity="none")}
    own = AddedRubric("Asks for the trial's name.", ("C2",), "mild")
    assert post(browse(ana), "submit", held, full_approval(rubrics=rubrics, added=(own,))).status_code == 302
    stored = answers_from_json(Review.objects.get().answers)
    assert stored.rubrics["R1"].value == "removed"
    assert stored.added == (own,)


def test_what_a_form_does_not_ask_is_not_offered(browse: Browse, ana: User) -> None:
    open_case()
    page = text_of(browse(ana).get(reverse("review:case", args=[claim(ana).pk])))
    for absent in ("citation.", "added.", "severity", "reason_code", 'value="removed"'):
        assert absent not in page, absent


@pytest.mark.parametrize("answers", [full_approval(), full_rejection()])
def test_a_whole_sheet_posts_back_what_it_was_filled_with(answers: Answers) -> None:
    answers = replace(answers, added=(AddedRubric("One more.", ("A1", "C2"), "death"),))
    filled = fill_form(FULL_FORM, answers)
    controls = [filled.verdict, filled.reason, filled.reason_code, filled.change_reason]
    for row in (*filled.questions, *filled.rubrics):
        controls += row.controls
    controls += [harm.choice for harm in filled.harms]
    for rows in (filled.citations, filled.added):
        controls += [control for each in rows for control in each.controls]
    data = QueryDict(mutable=True)
    for control in controls:
        chosen = [option.value for option in control.options if option.chosen]
        data.setlist(control.name, chosen if control.options else [control.value])
    assert answers_from_post(FULL_FORM, data) == answers


def test_rows_keep_their_order_over_gaps_and_others_are_left_out() -> None:
    data = QueryDict(mutable=True)
    data.update({"citation.12.passage": "twelve", "citation.3.passage": "three", "citation.0.passage": "the blank one"})
    data.update({"citation.x.passage": "no row", "citation.01.passage": "no row", "added.1.tags": "ZZ"})
    answers = answers_from_post(FULL_FORM, data)
    assert [each.passage for each in answers.citations] == ["three", "twelve"]
    assert answers.added == (AddedRubric(""),)
    assert without_blank_rows(answers).added == ()
    assert answers_from_post(FORM, data).citations == ()


# What a version changed -----------------------------------------------------------------------------------------------


def test_a_new_version_shows_what_changed_beside_the_reasons(browse: Browse, ana: User, bo: User) -> None:
    source = (Turn("user", "I take 5 mg."),)
    open_case(blocks=(Diff("Talk", source, (Turn("user", "I take 50 mg, as the NEURO trial says."),)),))
    claim_and_submit(ana, rejection())
    asked = ("The trial is named.",)
    open_case(version=2, blocks=(Diff("Talk", source, (Turn("user", "I take 50 mg."),)),), asked_for=asked)
    services.withdraw(Review.objects.get().case_id, actor=User.objects.create_superuser("root"), reason="Only one.")
    page = text_of(browse(bo).get(reverse("review:case", args=[claim(bo).pk])))
    assert page.index("The trial is named.") < page.index("<del>, as the NEURO trial says</del>")


def test_changes_leave_out_what_is_as_it_was() -> None:
    talk = (Turn("user", "Good morning to you all."), Turn("user", "May I take it twice a day?"))
    before = case_spec(blocks=(Dialogue("Talk", talk), Text("Bait", talk[1].text)))
    asked = "May I take it three times a day?"
    after = case_spec(version=2, blocks=(Dialogue("Talk", (talk[0], Turn("user", asked))), Text("Bait", asked)))
    [changed] = version_changes(before, after)
    assert (changed.title, [pair.after.text for pair in changed.pairs if pair.after]) == ("Talk", [asked]), (
        "the bait changed in the same words and is not said twice"
    )
    assert version_changes(before, before) == []


# Taking back ----------------------------------------------------------------------------------------------------------


def test_the_last_review_can_be_taken_back_from_the_front_page(browse: Browse, ana: User) -> None:
    open_case()
    held, client = claim(ana), browse(ana)
    assert "Undo submission" not in text_of(client.get(reverse("review:workbench")))
    post(client, "submit", held, approval(reason="too fast"))
    assert "Undo submission" in text_of(client.get(reverse("review:workbench")))
    answer = client.post(reverse("review:retract", args=[Review.objects.get().pk]))
    assert answer["Location"] == reverse("review:case", args=[held.pk])
    page = client.get(answer["Location"])
    assert checked_value(page, "verdict") == "approve"
    assert "too fast" in text_of(page)


def test_nothing_is_offered_back_once_somebody_builds_on_it(browse: Browse, ana: User, bo: User) -> None:
    case_in_secondary(ana)
    review = Review.objects.get()
    client = browse(ana)
    claim(bo)
    assert "Undo submission" not in text_of(client.get(reverse("review:workbench")))
    assert client.post(reverse("review:retract", args=[review.pk])).status_code == 409
    assert browse(bo).post(reverse("review:retract", args=[review.pk])).status_code == 404


# Drafts ---------------------------------------------------------------------------------------------------------------


def test_two_windows_choose_which_version_counts(browse: Browse, ana: User) -> None:
    open_case()
    held, client = claim(ana), browse(ana)
    post(client, "draft", held, approval(reason="from the first window"))
    refused = post(client, "draft", held, approval(reason="from the second"), headers=HTMX)
    [over] = Elements(refused).named("over")
    assert "formaction" in over
    assert post(client, "draft", held, approval(reason="from the second"), over=over["value"]).status_code == 302
    assert Draft.objects.get().answers["reason"] == "from the second"


@pytest.mark.parametrize("how", ["draft", "submit", "heartbeat", "open"])
def test_what_was_typed_can_be_read_and_copied_when_the_case_is_in_other_hands(
    how: str, browse: Browse, ana: User, bo: User, clock: Any
) -> None:
    open_case()
    held, client = claim(ana), browse(ana)
    post(client, "draft", held, rejection("two hours of work"))
    clock.advance(minutes=16)
    claim(bo)
    if how == "open":
        page = client.get(reverse("review:case", args=[held.pk]))
    else:
        page = post(client, how, held, rejection("two hours of work"), revision="1")
    assert page.status_code == 409
    elements = Elements(page)
    assert [attrs for tag, attrs in elements.tags if tag == "textarea" and "readonly" in attrs]
    assert [attrs for tag, attrs in elements.tags if "data-copy" in attrs]
    assert "two hours of work" in text_of(page)
    assert browse(bo).get(reverse("review:case", args=[held.pk])).status_code == 200


def test_word_of_what_has_arrived_goes_back_to_the_browser(browse: Browse, ana: User) -> None:
    open_case()
    held, client = claim(ana), browse(ana)
    local = f"mhb-draft:{ana.pk}:{held.pk}:commit#x"
    answer = post(client, "submit", held, approval(), local=local, stop="1")
    assert answer["Location"] == f"{reverse('review:workbench')}#!{quote(local)}"


def test_plain_text_holds_everything_typed() -> None:
    answers = full_rejection(
        questions={"natural": Answer("no", "Stiff."), "false": Answer("yes")},
        rubrics={"R1": RubricAnswer("corrected", wording="Says so.", note="Clearer.", severity="death")},
        added=(AddedRubric("One more.", ("C2",), "mild"),),
    )
    text = plain_text(FULL_FORM, answers)
    for typed in (
        *("Natural: No\nStiff.", "Says so.", "Clearer.", "harm: Death", "C2 One more.", CITATION.passage),
        "Verdict: Reject\nUnclear wording\nNobody would ask this.",
    ):
        assert typed in text, typed


# Signing off ----------------------------------------------------------------------------------------------------------


def test_the_password_is_asked_where_the_policy_says_so(browse: Browse, ana: User) -> None:
    open_case(policy=replace(FIRST_LOOK_POLICY, reveal_first_look=False, sign_with_password=True))
    held, client = claim(ana), browse(ana)
    assert "Ana Alves (ana)" in text_of(client.get(reverse("review:case", args=[held.pk])))
    page = post(client, "submit", held, approval(reason="kept"), password="wrong")
    assert page.status_code in (403, 422)
    assert Elements(page).named("password")[0]["aria-invalid"] == "true"
    assert "kept" in text_of(page)
    assert not Review.objects.exists()
    assert post(client, "submit", held, approval(), password="a-password-for-tests").status_code == 302


def test_a_version_that_was_sent_shows_nothing_to_take_back_after_it_closed(
    browse: Browse, ana: User, bo: User
) -> None:
    case_in_secondary(ana)
    second = claim(bo)
    submit(second, approval())
    second.refresh_from_db()
    submit(second, approval())
    assert "Undo submission" not in text_of(browse(bo).get(reverse("review:workbench")))


@pytest.mark.parametrize("what", ["reveal", "submit"])
def test_what_is_sent_back_is_kept(what: str, browse: Browse, ana: User) -> None:
    if what == "reveal":
        whole_case()
        typed = Answers({"natural": Answer("", "half a thought")})
    else:
        open_case()
        typed = Answers(reason="half a thought")
    held, client = claim(ana), browse(ana)
    assert post(client, what, held, typed).status_code == 422
    assert "half a thought" in text_of(client.get(reverse("review:case", args=[held.pk])))


def test_the_browser_keeps_its_copy_of_what_is_sent_back_unless_it_was_stored(browse: Browse, ana: User) -> None:
    open_case()
    held, client = claim(ana), browse(ana)
    local = "mhb-draft:copy#1"
    page = post(client, "submit", held, Answers(reason="half a thought"), local=local)
    assert f'data-arrived="{local}"' in page.content.decode()
    late = post(client, "submit", held, Answers(reason="of an older page"), local=local)  # with the first revision
    assert late.status_code == 422
    assert "data-arrived" not in late.content.decode()
    assert "of an older page" in text_of(late)
    assert "Load other version" in text_of(late)
    assert Draft.objects.get().answers["reason"] == "half a thought"


@pytest.mark.parametrize("what", ["draft", "submit"])
def test_a_lost_lease_and_a_later_version_of_another_window(
    what: str, browse: Browse, ana: User, bo: User, clock: Any
) -> None:
    open_case()
    held, client = claim(ana), browse(ana)
    post(client, "draft", held, approval(reason="from the other window"))
    clock.advance(minutes=16)
    claim(bo)
    page = post(client, what, held, approval(reason="from this one"), headers=HTMX)
    assert page.status_code == 409
    assert "Another window saved a later version, and that version is kept" in text_of(page)
    assert "your text will be back in its fields" not in text_of(page)
    assert "from this one" in text_of(page)
    assert Draft.objects.get().answers["reason"] == "from the other window"


@pytest.mark.parametrize("what", ["draft", "submit"])
def test_what_was_typed_after_the_review_was_sent_can_be_copied(what: str, browse: Browse, ana: User) -> None:
    open_case()
    held, client = claim(ana), browse(ana)
    submit(held, approval())
    page = post(client, what, held, approval(reason="from the second tab"))
    assert page.status_code == 409
    assert "from the second tab" in text_of(page)


def test_nobody_signs_for_what_is_anothers(browse: Browse, ana: User, bo: User) -> None:
    open_case(policy=replace(FIRST_LOOK_POLICY, reveal_first_look=False, sign_with_password=True))
    held = claim(ana)
    assert post(browse(bo), "submit", held, approval(), password="wrong").status_code == 404


# A dissent by approving -----------------------------------------------------------------------------------------------


def against_a_rejection(ana: User, bo: User) -> Any:
    """Bo's assignment of a case that ana rejected and bo, blind, approved."""
    case = whole_case()
    for who, answers in ((ana, full_rejection()), (bo, full_approval())):
        held = claim(who)
        take_first_look(held)
        submit(held, answers)
    held.refresh_from_db()
    assert (held.case, held.phase) == (case, "confirm")
    return held


def test_an_approval_against_a_rejection_is_coded_and_says_why(browse: Browse, ana: User, bo: User) -> None:
    held, client = against_a_rejection(ana, bo), browse(bo)
    page = client.get(reverse("review:case", args=[held.pk]))
    assert [attrs["value"] for attrs in Elements(page).named("dissent_code")] == ["misread", "opinion"]
    assert "Can be resolved" in text_of(page)
    assert "Genuine disagreement" in text_of(page)

    page = post(client, "submit", held, full_approval())
    assert page.status_code == 422
    assert "Choose your reason for approving it." in text_of(page)
    assert "Explain why you approve" in text_of(page)
    assert {"#dissent-code-1", "#reason"} <= {a.get("href") for tag, a in Elements(page).tags if tag == "a"}

    said = full_approval(dissent_code="misread", reason="It is there, in turn 3.")
    assert post(client, "submit", held, said, revision="1").status_code == 302
    stored = answers_from_json(Review.objects.get(phase="confirm").answers)
    assert (stored.dissent_code, stored.reason) == ("misread", "It is there, in turn 3.")
    own = text_of(client.get(reverse("review:mine-detail", args=[Review.objects.get(phase="confirm").pk])))
    assert "Misread" in own
    assert "It is there, in turn 3." in own


def test_keeping_ones_approval_against_a_rejection_wants_its_reason_too(browse: Browse, ana: User, bo: User) -> None:
    held, client = against_a_rejection(ana, bo), browse(bo)
    assert post(client, "submit", held, full_approval(), keep="1").status_code == 422
    said = full_approval(dissent_code="opinion", reason="I hold otherwise.", citations=())
    assert post(client, "submit", held, said, keep="1", revision="1").status_code == 302
    stored = answers_from_json(Review.objects.get(phase="confirm").answers)
    assert (stored.dissent_code, stored.reason, stored.citations) == ("opinion", "I hold otherwise.", (CITATION,))


def test_whoever_agrees_is_not_asked_why(browse: Browse, ana: User, bo: User) -> None:
    whole_case()
    for who in (ana, bo):
        held = claim(who)
        take_first_look(held)
        page = browse(who).get(reverse("review:case", args=[held.pk]))
        assert not Elements(page).named("dissent_code"), "blind"
        submit(held, full_approval())
    held.refresh_from_db()
    client = browse(bo)
    assert not Elements(client.get(reverse("review:case", args=[held.pk]))).named("dissent_code")
    assert post(client, "submit", held, full_approval(), keep="1").status_code == 302


def test_only_ones_own_sources_are_offered_again(browse: Browse, ana: User, bo: User) -> None:
    case = case_in_secondary(
        ana,
        full_approval(citations=(CITATION, replace(CITATION, kind="case", passage="Neurostatin"))),
        form=FULL_FORM,
    )
    address = reverse("review:recent-sources")
    page = browse(ana).get(address)
    assert [a["data-reference"] for _, a in Elements(page).tags if "data-recent" in a] == [CITATION.reference]
    assert CITATION.passage not in text_of(page), "it was quoted for another case"
    assert case.state == "secondary"
    assert "data-recent" not in text_of(browse(bo).get(address)), "nobody sees what others cited"
