"""The labels shown to people for stored values."""

import json
from collections.abc import Callable
from pathlib import Path

from django.utils.functional import Promise
from django.utils.translation import gettext, pgettext_lazy
from django.utils.translation import gettext_lazy as _

from review import registrations
from review.rules.case_spec import UNDETERMINED
from review.rules.permissions import UserRole
from review.rules.state_machine import NOT_SAMPLED, Declaration, Ground, Phase, Role, State, Verdict

_TABLES = json.loads(Path(__file__).with_suffix(".json").read_bytes())
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
WORDINGS: dict[str, Promise] = {  # how two reviewers leave a rubric, compared with each other
    "generated": pgettext_lazy("wording", "as generated"),
    "corrected": pgettext_lazy("wording", "corrected"),
    "corrected-2": pgettext_lazy("wording", "corrected in other words"),
    "added": pgettext_lazy("wording", "added"),
    "absent": pgettext_lazy("wording", "absent"),
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
SUBMISSION_EFFECTS: dict[str, Promise] = {row["name"]: _(row["label"]) for row in _TABLES["submission_effects"]}
MEANINGS: dict[str, Promise] = {
    "review": _("signed as a review"),
    "verification": _("signed as a verification"),
    "adjudication": _("signed as an adjudication"),
}


PROBLEM_MESSAGES: dict[str, Promise] = {row["name"]: _(row["label"]) for row in _TABLES["problem_messages"]}


# policy setting -> (label, description)
POLICY_SETTINGS: dict[str, tuple[Promise, Promise]] = {
    row["name"]: (_(row["label"]), _(row["note"])) for row in _TABLES["policy_settings"]
}


def language_label(code: str) -> str:
    """A language as its code, or a phrase if it is undetermined."""
    if code == UNDETERMINED:
        return gettext("unknown, waits for an admin")
    return code


def translate(msgid: str) -> str:
    """A benchmark's string in the reader's language.

    Empty strings are not passed to gettext, which would return the header of its catalogue.
    """
    if msgid:
        return gettext(msgid)
    return ""


def with_label(label: object, text: object) -> str:
    """`label: text`, with the colon of the reader's language."""
    return "".join((str(label), gettext(": "), str(text)))


_label_of: dict[str, Callable[[str], str]] = {}


def register_labels(**label_of: Callable[[str], str]) -> None:
    """Register how a `benchmark` and a `task` are labelled, from the app that knows them.

    Call it in `registered.py`.
    """
    _label_of.update(label_of)


def task_label(name: str) -> str:
    """The benchmark's label for a task, in the reader's language; by default its name."""
    registrations.load()
    return translate(_label_of.get("task", str)(name))


def benchmark_label(name: str) -> str:
    """A benchmark's label without the explanation after a colon; by default its name."""
    return _label_parts(name)[0]


def benchmark_explanation(name: str) -> str:
    """What a benchmark's label says of it after a colon; "" if it has none."""
    return _label_parts(name)[1]


def _label_parts(benchmark: str) -> tuple[str, str]:
    registrations.load()
    whole = translate(_label_of.get("benchmark", str)(benchmark))
    label, _colon, explanation = whole.replace("：", ":").partition(":")
    return label, explanation.strip()
