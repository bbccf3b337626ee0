"""The words that readers see for the machine's values."""

from django.utils.functional import Promise
from django.utils.translation import gettext, pgettext_lazy
from django.utils.translation import gettext_lazy as _

from review.rules.state_machine import Ground, Phase, Role, State, Verdict

ROLES: dict[str, Promise] = {
    Role.PRIMARY: _("Primary reviewer"),
    Role.SECONDARY: _("Secondary reviewer"),
    Role.ADJUDICATOR_1: _("Adjudicator 1"),
    Role.ADJUDICATOR_2: _("Adjudicator 2"),
}
# For physicians, who judge what was said and not who said it.
NAMELESS: dict[str, Promise] = {
    Role.PRIMARY: _("First reviewer"),
    Role.SECONDARY: _("Second reviewer"),
    Role.ADJUDICATOR_1: _("First adjudicator"),
    Role.ADJUDICATOR_2: _("Second adjudicator"),
}
PHASES: dict[str, Promise] = {
    Phase.COMMIT: _("own answer"),
    Phase.CONFIRM: _("confirmation"),
    Phase.DISCUSS: _("second vote"),
}
STAGES: dict[str, Promise] = {
    State.PRIMARY: pgettext_lazy("state of a case", "primary"),
    State.SECONDARY: pgettext_lazy("state of a case", "secondary"),
    State.ADJUDICATION: pgettext_lazy("state of a case", "adjudication"),
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
    "url": _("Web address"),
}
# What the levels of the AHRQ Common Formats Harm Scale mean, in short.
HARMS: dict[str, Promise] = {
    "none": _("no harm to the patient"),
    "mild": _("slight symptoms or loss of function, or no more than extra treatment, watching or time in hospital"),
    "moderate": _("injury of body or mind that impairs function or quality of life, short of severe"),
    "severe": _("injury of body or mind that takes away much of function or quality of life"),
    "death": _("the patient could die of it"),
}
GROUNDS: dict[str, Promise] = {
    Ground.CONSENSUS: _("both reviewers agreed"),
    Ground.PRIMARY_ALONE: _("the primary reviewer's word alone"),
    Ground.RUBRIC_INADEQUATE: _("a rubric was found inadequate"),
    Ground.ADJUDICATED: _("decided by the adjudicators"),
    Ground.UNDECIDED: _("the adjudicators could not agree"),
    Ground.WITHDRAWN: _("withdrawn"),
    Ground.UNREVIEWED: _("not reviewed: outside the sampled share"),
}
MEANINGS: dict[str, Promise] = {
    "review": _("signed as a review"),
    "verification": _("signed as a verification"),
    "adjudication": _("signed as an adjudication"),
}


SENTENCES: dict[str, Promise] = {
    "unanswered": _("Choose an answer."),
    "unknown-value": _("This is none of the answers. Choose again."),
    "note-missing": _("Say in the note what is wrong: whoever makes the next version works from it."),
    "wording-missing": _("Write the corrected wording."),
    "wording-unchanged": _("The wording is the original. Change it, or mark the rubric adequate."),
    "verdict-missing": _("Approve or reject."),
    "verdict-contradicts": _("An answer above says that the case cannot stay as it is: it cannot be approved."),
    "reason-missing": _("Say why it is rejected."),
    "change-reason-missing": _("Your answer differs from the one you committed. Say why, or keep yours."),
    "unknown-field": _("This case does not ask that."),
    "evidence-missing": _("This answer wants evidence: add at least one source."),
    "citation-malformed": _("This is not written as such a source is. Look at the example."),
    "citation-incomplete": _(
        "Part of the source is missing: the reference, the passage quoted and the day it was read."
    ),
    "citation-duplicate": _("This source is given already."),
    "severity-missing": _("Say how much harm it could do."),
    "reason-code-missing": _("Choose the reason that fits best."),
    "dissent-code-missing": _("The first reviewer rejected it. Choose why you approve it all the same."),
    "dissent-reason-missing": _("Say in your words why you approve what the first reviewer rejected."),
    "criterion-missing": _("Write what a good answer must do."),
    "criterion-duplicate": _("There is a rubric that says the same."),
    "no-rubric-left": _("No rubric is left: keep one, or add your own."),
}


def said(msgid: str) -> str:
    """A string of a benchmark in the reader's language. (gettext answers the empty string with its catalogue's head.)"""
    return gettext(msgid) if msgid else ""
