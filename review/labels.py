"""The labels shown to people for stored values."""

import re
from collections.abc import Callable

from django.utils.functional import Promise
from django.utils.translation import gettext, pgettext_lazy
from django.utils.translation import gettext_lazy as _

from review.rules.case_spec import UNDETERMINED
from review.rules.permissions import UserRole
from review.rules.state_machine import NOT_SAMPLED, Declaration, Ground, Phase, Role, State, Verdict

ROLES: dict[str, Promise] = {
    Role.PRIMARY: _("Primary reviewer"),
    Role.SECONDARY: _("Secondary reviewer"),
    Role.ADJUDICATOR_1: _("Adjudicator 1"),
    Role.ADJUDICATOR_2: _("Adjudicator 2"),
}
USER_ROLES: dict[str, Promise] = {
    UserRole.PHYSICIAN: _("Physician"),
    UserRole.RESEARCHER: _("Researcher"),
    UserRole.ADMIN: _("Admin"),
    UserRole.AUDITOR: _("Auditor"),
}
# For physicians, who should judge the content and not its author.
ANONYMOUS_ROLES: dict[str, Promise] = {
    Role.PRIMARY: _("First reviewer"),
    Role.SECONDARY: _("Second reviewer"),
    Role.ADJUDICATOR_1: _("First adjudicator"),
    Role.ADJUDICATOR_2: _("Second adjudicator"),
}
PHASES: dict[str, Promise] = {
    Phase.COMMIT: _("independent answer"),
    Phase.CONFIRM: _("confirmation"),
    Phase.DISCUSS: _("second vote"),
}
STAGES: dict[str, Promise] = {
    State.PRIMARY: pgettext_lazy("state of a case", "primary"),
    State.SECONDARY: pgettext_lazy("state of a case", "secondary"),
    State.ADJUDICATION: pgettext_lazy("state of a case", "adjudication"),
}
CASE_STATES: dict[str, Promise] = {
    **STAGES,
    State.APPROVED: pgettext_lazy("state of a case", "approved"),
    State.REJECTED: pgettext_lazy("state of a case", "rejected"),
    State.WITHDRAWN: pgettext_lazy("state of a case", "withdrawn"),
    NOT_SAMPLED: _("not sampled for review"),
}
VERDICTS: dict[str, Promise] = {
    Verdict.APPROVE: pgettext_lazy("verdict", "Approve"),
    Verdict.REJECT: pgettext_lazy("verdict", "Reject"),
}
FINDINGS: dict[str, Promise] = {
    "adequate": pgettext_lazy("rubric", "Adequate"),
    "corrected": pgettext_lazy("rubric", "Corrected"),
    "inadequate": pgettext_lazy("rubric", "Inadequate"),
    "removed": pgettext_lazy("rubric", "Removed"),
}
CITATION_KINDS: dict[str, Promise] = {
    "guideline": _("Guideline"),
    "doi": _("DOI"),
    "pmid": _("PMID"),
    "url": _("Web page"),
    "book": _("Book"),
    "case": _("The text itself"),
    "search": _("Searched, not found"),
}
CITATION_LEVELS: dict[str, Promise] = {
    "guideline": _("Guideline"),
    "review": _("Systematic review"),
    "study": _("Original study"),
    "label": _("Drug label"),
    "textbook": _("Textbook"),
    "case": _("The text itself"),
    "search": _("Searched, not found"),
}
DECLARATIONS: dict[str, Promise] = {
    Declaration.WORDING: _("Only the wording: the meaning is the same"),
    Declaration.MEANING: _("The meaning has changed"),
}
# Short definitions of the levels of the AHRQ Common Formats Harm Scale.
HARMS: dict[str, Promise] = {
    "none": _("no harm evident in the patient"),
    "mild": _(
        "minimal symptoms or loss of function, or only additional treatment, monitoring or a longer hospital stay"
    ),
    "moderate": _("bodily or psychological injury that impairs function or quality of life, but is not severe"),
    "severe": _("bodily or psychological injury that significantly impairs function or quality of life"),
    "death": _("the patient could die as a result"),
}
GROUNDS: dict[str, Promise] = {
    Ground.CONSENSUS: _("both reviewers agreed"),
    Ground.CORRECTED: _("both approved, with rubrics that the second reviewer corrected"),
    Ground.OBJECTION_LAPSED: _("both approved; the first reviewer did not object to the second's wording in time"),
    Ground.PRIMARY_ALONE: _("primary reviewer's verdict only"),
    Ground.RUBRIC_INADEQUATE: _("a rubric was judged inadequate"),
    Ground.ADJUDICATED: _("decided by the adjudicators"),
    Ground.UNDECIDED: _("the adjudicators could not agree"),
    Ground.WITHDRAWN: _("withdrawn"),
    Ground.UNREVIEWED: _("not sampled for review"),
}
# The effect of a review, as shown to its author; see `visibility.submission_effect`.
SUBMISSION_EFFECTS: dict[str, Promise] = {
    "submitted": _("Submitted."),
    "first-of-two": _("Submitted. You were the first of two."),
    "approved": _("Submitted. The case is approved."),
    "rejected": _("Submitted. The case is rejected."),
    "consensus-approved": _("Submitted. Approved by both."),
    "corrected-approved": _("Submitted. Approved by both, with your corrections."),
    "rewording": _("Submitted. The first reviewer is shown your wording and may object."),
    "consensus-rejected": _("Submitted. Rejected by both."),
    "rubric-inadequate-rejected": _("Submitted. Rejected: a rubric was judged inadequate."),
    "adjudication": _("Submitted. You two differ: the case goes to adjudication."),
    "voted": _("Submitted. Your vote counts once both adjudicators have voted."),
    "adjudicated-approved": _("Submitted. Approved by both adjudicators."),
    "adjudicated-rejected": _("Submitted. Rejected by both adjudicators."),
    "undecided-rejected": _("Submitted. Rejected: the adjudicators could not agree."),
}
MEANINGS: dict[str, Promise] = {
    "review": _("signed as a review"),
    "verification": _("signed as a verification"),
    "adjudication": _("signed as an adjudication"),
}


PROBLEM_MESSAGES: dict[str, Promise] = {
    "unanswered": _("Choose an answer."),
    "unknown-value": _("This is not one of the options. Choose again."),
    "note-missing": _("Say in the note what is wrong. Your note guides the next version."),
    "wording-missing": _("Enter the corrected wording."),
    "wording-unchanged": _("The wording is the same as the original. Change it, or mark the rubric adequate."),
    "verdict-missing": _("Approve or reject."),
    "verdict-contradicts": _("One of your answers above finds a problem, so the case cannot be approved."),
    "reason-missing": _("Give a reason for the rejection."),
    "change-reason-missing": _(
        "Your answer differs from the one you committed. Give a reason for the change, or keep your committed answer."
    ),
    "unknown-field": _("This case has no such question."),
    "evidence-missing": _("Add at least one source."),
    "evidence-kind-missing": _(
        "This answer requires another kind of source. Add one of the kinds listed with the question."
    ),
    "evidence-unfit": _(
        "Your sources cannot show this trap to be false. See under Evidence which sources are accepted."
    ),
    "citation-malformed": _("The reference does not match this kind of source. Check the kind and the reference."),
    "citation-incomplete": _(
        "The source is incomplete. Enter the reference, the quoted passage and the date you read it."
    ),
    "citation-duplicate": _("You have already added this source."),
    "severity-missing": _("Choose the level of harm."),
    "reason-code-missing": _("Choose the reason that fits best."),
    "dissent-code-missing": _("The first reviewer rejected this case. Choose your reason for approving it."),
    "dissent-reason-missing": _("Explain why you approve a case that the first reviewer rejected."),
    "criterion-missing": _("Describe what a good answer must do."),
    "criterion-duplicate": _("Another rubric already says the same."),
    "highlight-misplaced": _("These words are not in the text. Copy them exactly as they are shown."),
    "highlight-duplicate": _("You have already highlighted these words with this label."),
    "unconfirmed": _("Confirm the answers that both reviewers gave, or change them."),
    "too-many": _("There are too many of these. Remove some."),
    "too-long": _("This text is too long. Shorten it."),
    "undeclared": _("Your rubrics differ from the first reviewer's. Say whether their meaning is the same."),
    "no-rubric-left": _("No rubrics are left. Keep one, or add your own."),
}


# policy setting -> (label, description)
POLICY_SETTINGS: dict[str, tuple[Promise, Promise]] = {
    "secondary": (_("Second reviewer"), _("Another physician reviews independently. Off: the first reviewer decides.")),
    "secondary_confirms": (
        _("Second reviewer confirms"),
        _("The second reviewer answers blind, then sees the first review and confirms or changes the answers."),
    ),
    "inadequate_rejects": (
        _("Inadequate rubric rejects"),
        _("A rubric found inadequate by either reviewer rejects the sample without adjudication."),
    ),
    "discussion": (_("Second vote"), _("Two adjudicators who differ see both rationales and vote once more.")),
    "adjudicators_blind": (
        _("Adjudicators vote first"),
        _("Adjudicators see the earlier reviews only after both have voted."),
    ),
    "settle_wording": (
        _("Settle the wording"),
        _(
            "A second reviewer who approves other rubrics says whether their meaning is the same: if so, the first reviewer "
            "may object, otherwise adjudicators decide. Two adjudicators who approve different rubrics vote once more."
        ),
    ),
    "signed_wording": (
        _("Same rubrics, signed by two"),
        _(
            "Approval needs the same rubrics, word for word, from two physicians. A first reviewer who does not answer has "
            "not agreed: adjudicators decide. Adjudicators whose rubrics still differ leave the sample undecided."
        ),
    ),
    "fresh_eyes_required": (
        _("New physicians for each version"),
        _("Physicians with a role in an earlier version of a sample cannot take a later one."),
    ),
    "reveal_first_look": (_("First look"), _("First-look questions are answered before the traps are shown.")),
    "other_hospital": (
        _("Other hospital"),
        _("The second reviewer and the adjudicators come from other hospitals than the first."),
    ),
    "senior_decides": (
        _("Senior physicians decide"),
        _("Where reviewers differ, only physicians whom an admin has marked as senior are offered the case."),
    ),
    "sign_with_password": (_("Password to sign"), _("Submitting a review asks for the password again.")),
    "sign_with_second_factor": (
        _("Second factor to sign"),
        _("Submitting a review asks for a code of the authenticator app."),
    ),
    "calibrated_only": (
        _("Calibration first"),
        _("Physicians must pass the calibration cases before they work on real ones."),
    ),
}


def language_label(code: str) -> str:
    """A language as its code, or a phrase if it is undetermined."""
    return gettext("unknown, waits for an admin") if code == UNDETERMINED else code


def translate(msgid: str) -> str:
    """A benchmark's string in the reader's language.

    Empty strings are not passed to gettext, which would return the header of its catalogue.
    """
    return gettext(msgid) if msgid else ""


def with_label(label: object, text: object) -> str:
    """`label: text`, with the colon of the reader's language."""
    return "".join((str(label), gettext(": "), str(text)))


_benchmark_labels: list[Callable[[str], str]] = []
_task_labels: list[Callable[[str], str]] = []


def register_task_labels(label: Callable[[str], str]) -> None:
    """Register how tasks are labelled; like `register_benchmark_labels`."""
    _task_labels.append(label)


def task_label(name: str) -> str:
    """The benchmark's label for a task, in the reader's language; by default its name."""
    return translate(next((label(name) for label in _task_labels), name))


def register_benchmark_labels(label: Callable[[str], str]) -> None:
    """Register how benchmarks are labelled, from the app that knows them.

    Call it in `AppConfig.ready`.
    """
    _benchmark_labels.append(label)


def benchmark_label(name: str) -> str:
    """A benchmark's label without the explanation after a colon; by default its name."""
    return re.split("[:：]", translate(next((label(name) for label in _benchmark_labels), name)))[0]
