"""The case page: first look, evidence, harm, reasons, rubrics, version changes, undo, drafts."""

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
from review.rules.questions import AddedRubric, Answer, Answers, Citation, RubricAnswer, RubricText
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
from tests.review.pages import HTMX, Browse, Elements, checked_value, post, refused_page, text_of

TRAPS = (Text("Traps", "Neurostatin does not exist."),)


def full_case(**more: Any) -> Any:
    return open_case(
        form=FULL_FORM, policy=FIRST_LOOK_POLICY, first_look=FIRST_LOOK_BLOCKS, **{"blocks": TRAPS, **more}
    )


# First look ---------------------------------------------------------------------------------------


def test_the_first_look_shows_only_the_text_and_its_own_questions(browse: Browse, ana: User) -> None:
    full_case(asked_for=("The trap was plain to see.",))
    page = browse(ana).get(reverse("review:case", args=[claim(ana).pk]))
    assert "May I take Neurostatin tonight?" in text_of(page)
    for hidden in ("does not exist", "plain to see", "Gives no dose", "Is it definitely false?", 'name="verdict"'):
        assert hidden not in text_of(page), hidden
    assert "Reveal traps" in text_of(page)


def test_revealing_opens_the_rest_and_fixes_the_first_answers(browse: Browse, ana: User) -> None:
    full_case()
    assignment, client = claim(ana), browse(ana)
    refused = refused_page(client, post(client, "reveal", assignment, Answers()))
    assert [a["href"] for tag, a in Elements(refused).tags if a.get("href") == "#question-1-1"]
    assert not FirstLook.objects.exists()

    stiff = Answers({"natural": Answer("no", "Stiff.")})
    assert post(client, "reveal", assignment, stiff)["Location"] == reverse("review:case", args=[assignment.pk])
    page = client.get(reverse("review:case", args=[assignment.pk]))
    assert "does not exist" in text_of(page)
    assert "Stiff." in text_of(page)
    assert not Elements(page).named("question.natural"), "the first look's answer is shown and not asked again"

    post(client, "submit", assignment, full_rejection(questions={"natural": Answer("yes"), "false": Answer("yes")}))
    assert answers_from_json(Review.objects.get().answers).questions["natural"] == Answer("no", "Stiff.")


# Evidence, harm, reasons, added rubrics -----------------------------------------------------------


def revealed_assignment(ana: User, **more: Any) -> Any:
    full_case(**more)
    assignment = claim(ana)
    take_first_look(assignment)
    return assignment


def test_submit_buttons_add_and_remove_rows_and_keep_what_was_typed(browse: Browse, ana: User) -> None:
    assignment, client = revealed_assignment(ana), browse(ana)
    address = reverse("review:case", args=[assignment.pk])
    answer = post(client, "draft", assignment, full_approval(), do="add-citation")
    assert answer["Location"] == f"{address}#citation-2-reference"
    page = client.get(address)
    assert Elements(page).named("citation.1.passage")
    assert CITATION.passage in text_of(page)
    assert [a["value"] for a in Elements(page).named("citation.2.reference")] == [""]

    two = full_approval(citations=(CITATION, replace(CITATION, section="9.9")))
    post(client, "draft", assignment, two, do="remove-citation.1", revision="1")
    assert answers_from_json(Draft.objects.get().answers).citations == (two.citations[1],)

    assert post(client, "draft", assignment, full_approval(), do="add-rubric", revision="2")["Location"] == (
        f"{address}#added-1-criterion"
    )
    assert Elements(client.get(address)).named("added.1.severity")


def test_faults_of_a_source_are_shown_at_its_fields(browse: Browse, ana: User) -> None:
    assignment = revealed_assignment(ana)
    wrong = Citation("doi", "doi of something", "", "", "2999-01-01")
    client = browse(ana)
    refused = post(client, "submit", assignment, full_approval(citations=(CITATION, CITATION, wrong)))
    page = refused_page(client, refused)
    elements = Elements(page)
    ids = elements.ids()
    assert len(ids) == len(set(ids))
    invalid = [attrs["name"] for _, attrs in elements.tags if attrs.get("aria-invalid") == "true"]
    assert invalid == ["citation.2.reference", *(f"citation.3.{part}" for part in ("reference", "passage", "read_on"))]
    links = [attrs.get("href") for tag, attrs in elements.tags if tag == "a"]
    assert {"#citation-2-reference", "#citation-3-read-on"} <= set(links)


def test_missing_evidence_focuses_the_first_source(browse: Browse, ana: User) -> None:
    assignment = revealed_assignment(ana)
    client = browse(ana)
    page = refused_page(client, post(client, "submit", assignment, full_approval(citations=())))
    assert [a["href"] for tag, a in Elements(page).tags if a.get("href") == "#citation-1-reference"]
    [field] = Elements(page).named("citation.1.reference")
    assert "autofocus" in field


def test_blank_rows_are_ignored(browse: Browse, ana: User) -> None:
    assignment = revealed_assignment(ana)
    blank = Citation("guideline", "", "", "", "2020-01-15")
    typed = full_approval(citations=(blank, CITATION), added=(AddedRubric("  "),))
    assert post(browse(ana), "submit", assignment, typed).status_code == 302
    assert answers_from_json(Review.objects.get().answers).citations == (CITATION,)


def test_the_harm_scale_explains_its_levels(browse: Browse, ana: User) -> None:
    assignment = revealed_assignment(ana)
    page = browse(ana).get(reverse("review:case", args=[assignment.pk]))
    assert [attrs["value"] for attrs in Elements(page).named("rubric.R1.severity")] == ["none", "mild", "death"]
    assert "AHRQ Common Formats" in text_of(page)
    assert "the patient could die as a result" in text_of(page)


def test_a_rejection_is_coded_and_shows_its_consequence(browse: Browse, ana: User) -> None:
    assignment, client = revealed_assignment(ana), browse(ana)
    page = refused_page(client, post(client, "submit", assignment, full_rejection(code="")))
    assert "Choose the reason that fits best." in text_of(page)
    assert "Will be revised" in text_of(page)
    assert "Will be discarded" in text_of(page)
    post(client, "submit", assignment, full_rejection("disputed"))
    assert answers_from_json(Review.objects.get().answers).reason_code == "disputed"
    own = client.get(reverse("review:mine-detail", args=[Review.objects.get().pk]))
    for shown in ("Disputed", "harm: Mild", CITATION.reference):
        assert shown in text_of(own), shown


def test_a_rubric_is_removed_and_another_added(browse: Browse, ana: User) -> None:
    assignment = revealed_assignment(ana)
    rubrics = {"R1": RubricAnswer("removed", note="Twice."), "R2": RubricAnswer("adequate", severity="none")}
    own = AddedRubric("Asks for the trial's name.", ("C2",), "mild")
    assert post(browse(ana), "submit", assignment, full_approval(rubrics=rubrics, added=(own,))).status_code == 302
    stored = answers_from_json(Review.objects.get().answers)
    assert stored.rubrics["R1"].value == "removed"
    assert stored.added == (own,)


def test_what_a_form_does_not_ask_is_not_offered(browse: Browse, ana: User) -> None:
    open_case()
    page = text_of(browse(ana).get(reverse("review:case", args=[claim(ana).pk])))
    for absent in ("citation.", "added.", "severity", "reason_code", 'value="removed"'):
        assert absent not in page, absent


@pytest.mark.parametrize("answers", [full_approval(), full_rejection()])
def test_a_full_form_posts_back_what_it_was_filled_with(answers: Answers) -> None:
    answers = replace(answers, added=(AddedRubric("One more.", ("A1", "C2"), "death"),))
    filled = fill_form(FULL_FORM, answers)
    controls = [filled.fields[name] for name in ("verdict", "reason", "reason_code", "change_reason")]
    for row in (*filled.questions, *filled.rubrics):
        controls += row.controls
    controls += [harm.choice for harm in filled.harms]
    for rows in (filled.citations, filled.added):
        controls += [control for row in rows for control in row.fields.values()]
    data = QueryDict(mutable=True)
    for control in controls:
        chosen = [option.value for option in control.options if option.chosen]
        data.setlist(control.name, chosen if control.options else [control.value])
    assert answers_from_post(FULL_FORM, data) == answers


def test_rows_keep_their_order_over_gaps_and_invalid_ones_are_left_out() -> None:
    data = QueryDict(mutable=True)
    data.update({"citation.12.passage": "twelve", "citation.3.passage": "three", "citation.0.passage": "the blank one"})
    data.update({"citation.x.passage": "no row", "citation.01.passage": "no row", "added.1.tags": "ZZ"})
    answers = answers_from_post(FULL_FORM, data)
    assert [citation.passage for citation in answers.citations] == ["three", "twelve"]
    assert answers.added == (AddedRubric(""),)
    assert without_blank_rows(answers).added == ()
    assert answers_from_post(FORM, data).citations == ()


# What a version changed ---------------------------------------------------------------------------


def test_a_new_version_shows_what_changed_beside_the_reasons(browse: Browse, ana: User, bo: User) -> None:
    source = (Turn("user", "I take 5 mg."),)
    open_case(blocks=(Diff("Talk", source, (Turn("user", "I take 50 mg, as the NEURO trial says."),)),))
    claim_and_submit(ana, rejection())
    reasons = ("The trial is named.",)
    open_case(version=2, blocks=(Diff("Talk", source, (Turn("user", "I take 50 mg."),)),), asked_for=reasons)
    services.withdraw(Review.objects.get().case_id, actor=User.objects.create_superuser("root"), reason="Only one.")
    page = text_of(browse(bo).get(reverse("review:case", args=[claim(bo).pk])))
    assert page.index("<del>, as the NEURO trial says</del>") < page.index("The trial is named.")


def test_unchanged_parts_are_left_out_of_the_changes() -> None:
    talk = (Turn("user", "Good morning to you all."), Turn("user", "May I take it twice a day?"))
    before = case_spec(blocks=(Dialogue("Talk", talk), Text("Bait", talk[1].text)))
    new_question = "May I take it three times a day?"
    after = case_spec(
        version=2, blocks=(Dialogue("Talk", (talk[0], Turn("user", new_question))), Text("Bait", new_question))
    )
    [changed] = version_changes(before, after)
    assert (changed.title, [pair.after.text for pair in changed.pairs if pair.after]) == ("Talk", [new_question]), (
        "the bait changed in the same words, which are not repeated"
    )
    assert version_changes(before, before) == []


def test_a_rubric_that_was_written_again_is_one_change() -> None:
    before = case_spec(form=replace(FORM, rubrics=(RubricText("R1", "Gives no dose."), RubricText("R2", "Says why."))))
    rubrics = (RubricText("R1", "Sends the patient to a hospital at once."), RubricText("R3", "Is polite."))
    [changed] = version_changes(before, case_spec(version=2, form=replace(FORM, rubrics=rubrics)))
    keys = [(pair.change, (pair.after or pair.before).speaker) for pair in changed.pairs]  # type: ignore[union-attr]
    assert keys == [("edited", "R1"), ("added", "R3"), ("removed", "R2")]


@pytest.mark.parametrize("action", ["reveal", "submit"])
def test_a_button_that_adds_a_row_only_saves_the_draft(action: str, browse: Browse, ana: User) -> None:
    full_case()
    assignment, client = claim(ana), browse(ana)
    if action == "submit":
        take_first_look(assignment)
    answer = post(client, action, assignment, full_approval(), do="add-citation")
    assert answer["Location"].startswith(reverse("review:case", args=[assignment.pk]))
    assert not Review.objects.exists()
    assert FirstLook.objects.exists() == (action == "submit")
    stored = {"reveal": 0, "submit": len(full_approval().citations) + 1}  # a first look asks for no sources
    assert len(Draft.objects.get().answers["citations"]) == stored[action]


# Undo ---------------------------------------------------------------------------------------------


def test_the_last_review_can_be_taken_back_from_the_front_page(browse: Browse, ana: User) -> None:
    open_case()
    assignment, client = claim(ana), browse(ana)
    assert "Undo submission" not in text_of(client.get(reverse("review:workbench")))
    post(client, "submit", assignment, approval(reason="too fast"))
    assert "Undo submission" in text_of(client.get(reverse("review:workbench")))
    answer = client.post(reverse("review:retract", args=[Review.objects.get().pk]))
    assert answer["Location"] == reverse("review:case", args=[assignment.pk])
    page = client.get(answer["Location"])
    assert checked_value(page, "verdict") == "approve"
    assert "too fast" in text_of(page)


def test_undo_is_not_offered_once_somebody_builds_on_the_review(browse: Browse, ana: User, bo: User) -> None:
    case_in_secondary(ana)
    review = Review.objects.get()
    client = browse(ana)
    claim(bo)
    assert "Undo submission" not in text_of(client.get(reverse("review:workbench")))
    assert client.post(reverse("review:retract", args=[review.pk])).status_code == 409
    assert browse(bo).post(reverse("review:retract", args=[review.pk])).status_code == 404


# Drafts -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("action", ["draft", "submit", "heartbeat", "open"])
def test_typed_text_can_be_copied_when_somebody_else_has_the_case(
    action: str, browse: Browse, ana: User, bo: User, clock: Any
) -> None:
    open_case()
    assignment, client = claim(ana), browse(ana)
    post(client, "draft", assignment, rejection("two hours of work"))
    clock.advance(minutes=16)
    claim(bo)
    if action == "open":
        page = client.get(reverse("review:case", args=[assignment.pk]))
    else:
        page = post(client, action, assignment, rejection("two hours of work"), revision="1")
    assert page.status_code == 409
    elements = Elements(page)
    assert [attrs for tag, attrs in elements.tags if tag == "textarea" and "readonly" in attrs]
    assert [attrs for tag, attrs in elements.tags if "data-copy" in attrs]
    assert "two hours of work" in text_of(page)
    assert browse(bo).get(reverse("review:case", args=[assignment.pk])).status_code == 200


def test_the_browser_is_told_which_copy_has_arrived(browse: Browse, ana: User) -> None:
    open_case()
    assignment, client = claim(ana), browse(ana)
    local = f"mhb-draft:{ana.pk}:{assignment.pk}:commit#x"
    answer = post(client, "submit", assignment, approval(), local=local, stop="1")
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


# Signing off --------------------------------------------------------------------------------------


def test_a_submit_that_closed_the_case_cannot_be_undone(browse: Browse, ana: User, bo: User) -> None:
    case_in_secondary(ana)
    second = claim(bo)
    submit(second, approval())
    second.refresh_from_db()
    submit(second, approval())
    assert "Undo submission" not in text_of(browse(bo).get(reverse("review:workbench")))


@pytest.mark.parametrize("action", ["reveal", "submit"])
def test_refused_answers_are_kept_as_the_draft(action: str, browse: Browse, ana: User) -> None:
    if action == "reveal":
        full_case()
        typed = Answers({"natural": Answer("", "half a thought")})
    else:
        open_case()
        typed = Answers(reason="half a thought")
    assignment, client = claim(ana), browse(ana)
    page = refused_page(client, post(client, action, assignment, typed))
    assert "half a thought" in text_of(page)
    assert "to complete" in text_of(page)
    later = client.get(reverse("review:case", args=[assignment.pk]))
    assert "half a thought" in text_of(later)
    assert "to complete" not in text_of(later), "said once"


def test_the_browser_keeps_its_copy_of_refused_answers_unless_they_were_stored(browse: Browse, ana: User) -> None:
    open_case()
    assignment, client = claim(ana), browse(ana)
    local = "mhb-draft:copy#1"
    refused = post(client, "submit", assignment, Answers(reason="half a thought"), local=local)
    assert refused["Location"].endswith(f"#!{quote(local)}")
    # Posted over the first revision, which is no longer the latest.
    late = post(client, "submit", assignment, Answers(reason="of an older page"), local=local)
    assert late.status_code == 422
    assert "data-arrived" not in late.content.decode()
    assert "of an older page" in text_of(late)
    assert "Load other version" in text_of(late)
    assert Draft.objects.get().answers["reason"] == "half a thought"


@pytest.mark.parametrize("action", ["draft", "submit"])
def test_a_lost_lease_does_not_overwrite_another_tabs_later_draft(
    action: str, browse: Browse, ana: User, bo: User, clock: Any
) -> None:
    open_case()
    assignment, client = claim(ana), browse(ana)
    post(client, "draft", assignment, approval(reason="from the other window"))
    clock.advance(minutes=16)
    claim(bo)
    page = post(client, action, assignment, approval(reason="from this one"), headers=HTMX)
    assert page.status_code == 409
    assert "Another window saved a later version, and that version is kept" in text_of(page)
    assert "your text will be back in its fields" not in text_of(page)
    assert "from this one" in text_of(page)
    assert Draft.objects.get().answers["reason"] == "from the other window"


@pytest.mark.parametrize("action", ["draft", "submit"])
def test_text_typed_after_the_review_was_submitted_can_be_copied(action: str, browse: Browse, ana: User) -> None:
    open_case()
    assignment, client = claim(ana), browse(ana)
    submit(assignment, approval())
    page = post(client, action, assignment, approval(reason="from the second tab"))
    assert page.status_code == 409
    assert "from the second tab" in text_of(page)


def test_nobody_can_sign_another_physicians_assignment(browse: Browse, ana: User, bo: User) -> None:
    open_case(policy=replace(FIRST_LOOK_POLICY, reveal_first_look=False, sign_with_password=True))
    assignment = claim(ana)
    assert post(browse(bo), "submit", assignment, approval(), password="wrong").status_code == 404


# A dissent by approving ---------------------------------------------------------------------------


def approval_against_a_rejection(ana: User, bo: User) -> Any:
    """Bo's assignment of a case that Ana rejected and Bo approved blind."""
    case = full_case()
    for physician, answers in ((ana, full_rejection()), (bo, full_approval())):
        assignment = claim(physician)
        take_first_look(assignment)
        submit(assignment, answers)
    assignment.refresh_from_db()
    assert (assignment.case, assignment.phase) == (case, "confirm")
    return assignment


def test_an_approval_against_a_rejection_needs_a_coded_reason(browse: Browse, ana: User, bo: User) -> None:
    assignment, client = approval_against_a_rejection(ana, bo), browse(bo)
    page = client.get(reverse("review:case", args=[assignment.pk]))
    assert [attrs["value"] for attrs in Elements(page).named("dissent_code")] == ["misread", "opinion"]
    assert "Can be resolved" in text_of(page)
    assert "Genuine disagreement" in text_of(page)

    page = refused_page(client, post(client, "submit", assignment, full_approval()))
    assert "Choose your reason for approving it." in text_of(page)
    assert "Explain why you approve" in text_of(page)
    assert {"#dissent-code-1", "#reason"} <= {a.get("href") for tag, a in Elements(page).tags if tag == "a"}

    answers = full_approval(dissent_code="misread", reason="It is there, in turn 3.")
    assert post(client, "submit", assignment, answers, revision="1").status_code == 302
    stored = answers_from_json(Review.objects.get(phase="confirm").answers)
    assert (stored.dissent_code, stored.reason) == ("misread", "It is there, in turn 3.")
    own = text_of(client.get(reverse("review:mine-detail", args=[Review.objects.get(phase="confirm").pk])))
    assert "Misread" in own
    assert "It is there, in turn 3." in own


def test_a_reviewer_who_agrees_is_not_asked_for_a_reason(browse: Browse, ana: User, bo: User) -> None:
    full_case()
    for physician in (ana, bo):
        assignment = claim(physician)
        take_first_look(assignment)
        page = browse(physician).get(reverse("review:case", args=[assignment.pk]))
        assert not Elements(page).named("dissent_code"), "blind"
        submit(assignment, full_approval())
    assignment.refresh_from_db()
    client = browse(bo)
    assert not Elements(client.get(reverse("review:case", args=[assignment.pk]))).named("dissent_code")
    post(client, "submit", assignment, full_approval())
    assert Review.objects.get(phase="confirm").physician == bo


def test_only_the_physicians_own_sources_are_offered_again(browse: Browse, ana: User, bo: User) -> None:
    case = case_in_secondary(
        ana,
        full_approval(citations=(CITATION, replace(CITATION, kind="case", passage="Neurostatin"))),
        form=FULL_FORM,
    )
    address = reverse("review:recent-sources")
    page = browse(ana).get(address)
    assert [a["data-reference"] for _, a in Elements(page).tags if "data-recent" in a] == [CITATION.reference]
    assert CITATION.passage not in text_of(page), "its passage was quoted for another case"
    assert case.state == "secondary"
    assert "data-recent" not in text_of(browse(bo).get(address)), "others' sources are not shown"
