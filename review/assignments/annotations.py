"""Cases annotated in another tool: what comes back is a physician's draft, never a review.

A review is signed by the physician who submits it, at the turn that the policy opens, and blind to
the others. An annotation was made outside all that. So it becomes the draft of a role that is
reserved for the physician: they find it on the case's page, check it and submit it. The trail says
who imported it, from which tool and file. Nothing that a physician has written here is replaced.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import IO

from django.utils.translation import gettext as _

from review import errors
from review.assignments import reassignment, review_drafts
from review.assignments.annotation_formats import (
    MAX_BYTES,
    Annotation,
    RefusedAnnotation,
    Task,
    WrongExport,
    annotations,
    files,
    tasks,
)
from review.audit.trail import record, record_look, recording_events
from review.cases import queries
from review.models import Assignment, Case, Draft, Event, PersonEvent, User
from review.rules.case_spec import answers_to_json
from review.rules.permissions import Can, Operator, require
from review.rules.questions import Answer, Answers, Form, RubricAnswer
from review.rules.state_machine import FINAL, Phase, Verdict
from review.turns.checks import check_limits
from review.turns.turn import requires_first_look


@dataclass(frozen=True, slots=True)
class DraftOf:
    """A draft that was stored, and whose it is."""

    case: int
    account: str


@dataclass(slots=True)
class AnnotationImport:
    """The drafts that were stored, and what was refused."""

    drafts: list[DraftOf] = field(default_factory=list)
    refusals: list[RefusedAnnotation] = field(default_factory=list)


def has_tasks(benchmark: str) -> bool:
    """Whether any case waits that another tool may show."""
    waiting = queries.cases(benchmark=benchmark).exclude(state__in=FINAL)
    return any(not requires_first_look(case) for case in waiting.order_by("pk").iterator())


def task_files(tool: str, benchmark: str, *, actor: User | Operator) -> dict[str, str]:
    """The files for a tool, by name: tasks of the cases that wait, and the tool's configuration.

    Without cases whose policy has physicians judge before they see the traps: a tool would show
    these at once. Raises NoTasks if no other waits.
    """
    require(actor, Can.OVERSEE, reading=True)
    shown, hidden = list[Task](), 0
    for case in queries.cases(benchmark=benchmark).exclude(state__in=FINAL).order_by("pk").iterator():
        if requires_first_look(case):
            hidden += 1
        else:
            shown += tasks(case.pk, case.frozen)
    if not shown:
        stay = _("%(n)d wait whose policy asks for a first look, which only this site can hide the traps for.")
        if not hidden:
            raise errors.NoTasks
        raise errors.NoTasks(stay % {"n": hidden})
    written = dict(files(tool, shown))
    record_look(PersonEvent.Kind.EXPORTED, actor, what=f"{tool}: {benchmark or 'all'}")
    return written


def import_file(tool: str, file: IO[bytes], name: str, *, accounts: Iterable[str], actor: User) -> AnnotationImport:
    """Import an uploaded export of a tool; see `import_annotations`.

    `accounts`: NAME=ACCOUNT each. Raises WrongAnnotations.
    """
    pairs = [pair.rpartition("=") for pair in accounts if pair.strip()]
    if wrong := ["".join(pair) for pair in pairs if not (pair[0] and pair[2])]:
        raise errors.WrongAnnotations(_("%(pair)s is not NAME=ACCOUNT.") % {"pair": wrong[0][:100]})
    try:
        found = list(annotations(tool, file.read(MAX_BYTES + 1)))
    except WrongExport as error:
        raise errors.WrongAnnotations(f"{name[:100]}: {error}") from None
    by_name = {annotator.strip(): account.strip() for annotator, _sign, account in pairs}
    return import_annotations(found, accounts=by_name, source=f"{tool}, {name[:100]}", actor=actor)


def import_annotations(
    found: Iterable[Annotation | RefusedAnnotation], *, accounts: Mapping[str, str], source: str, actor: User
) -> AnnotationImport:
    """Store annotations as drafts of the physicians who made them.

    `accounts`: user names by the annotators' names in the tool. `source`: tool and file, for the
    trail. What cannot be stored is refused, case by case.
    """
    require(actor, Can.OVERSEE)
    result = AnnotationImport()
    by_review: dict[tuple[int, str], list[Annotation]] = defaultdict(list)
    for annotation in found:
        if isinstance(annotation, RefusedAnnotation):
            result.refusals.append(annotation)
        else:
            by_review[annotation.case, annotation.annotator].append(annotation)
    for (case, annotator), listed in by_review.items():
        name = accounts.get(annotator, annotator)
        try:
            _store(case, name, listed, f"{source}, {annotator}", actor, result)
        except errors.ReviewError as error:
            result.refusals.append(RefusedAnnotation(f"case {case}, {annotator[:100]}", str(error.detail or error)))
        else:
            result.drafts.append(DraftOf(case, name))
    return result


@recording_events()
def _store(
    case_id: int, name: str, listed: list[Annotation], source: str, actor: User, result: AnnotationImport
) -> None:
    physician = User.objects.filter(username=name).first()
    case = Case.objects.filter(pk=case_id, kind=Case.Kind.WORK).first()
    if case is None:
        raise errors.NotReserved(_("There is no such case."))
    if physician is None:
        raise errors.NotReserved(_("There is no such account."))
    if requires_first_look(case):
        raise errors.NotReserved(_("Its policy asks for a first look, which only this site can hide the traps for."))
    waiting = Assignment.objects.filter(case=case, phase=Phase.COMMIT, hold=Assignment.Hold.OPEN)
    if waiting.exclude(reserved_for=None).exclude(reserved_for=physician).exists():
        raise errors.NotReserved(_("It is reserved for another physician."))
    if _has_own_draft(case, physician):
        raise errors.NotReserved(_("The physician has a draft of their own, which is kept."))
    answers, refusals = _answers(case.frozen.form, listed)
    result.refusals.extend(refusals)
    if len(refusals) == len(listed):
        raise errors.NotReserved(_("None of its annotations answers a question of the case."))
    check_limits(case.frozen, answers)
    assignment = reassignment.reserve(case.pk, to=physician, actor=actor)
    review_drafts.store(assignment, physician, Phase.COMMIT, answers_to_json(answers))
    record(case, Event.Kind.IMPORTED, actor, role=assignment.role, text=source[:500])


def _has_own_draft(case: Case, physician: User) -> bool:
    """Whether the physician has written here, also into a draft that an import made.

    What they have not touched since, a corrected export may replace.
    """
    for draft in Draft.objects.filter(assignment__case=case, physician=physician):
        imports = Event.objects.filter(case=case, kind=Event.Kind.IMPORTED, at__gte=draft.saved_at)
        if not imports.exists():
            return True
    return False


def _if_taken(value: str, taken: bool) -> str:
    if taken:
        return value
    return ""


def _answers(form: Form, listed: Iterable[Annotation]) -> tuple[Answers, list[RefusedAnnotation]]:
    """The answers that annotations give, and the annotations that no question takes."""
    questions = {question.key: question for question in form.questions}
    criteria = {rubric.key: rubric.criterion for rubric in form.rubrics}
    severities, reasons = {level.value for level in form.severities}, {reason.code for reason in form.reasons}
    answered: dict[str, Answer] = {}
    judged: dict[str, dict[str, str]] = defaultdict(dict)
    others: dict[str, str] = {}
    refusals = []
    for each in listed:
        name, _dot, key = each.field.partition(".")
        of_rubric, severity = key.removesuffix(".severity"), key.endswith(".severity")
        value = ""
        if len(each.values) == 1:
            value = each.values[0]
        taken = True
        if name == "question" and key in questions:
            question = questions[key]
            value = question.value_of(each.values)
            known = []
            if value:
                known = list(question.chosen(value))
            taken = len(each.values) == len(known) and (question.kind == "choices" or len(known) <= 1)
            answered[key] = Answer(_if_taken(value, taken), each.note)
        elif name == "rubric" and of_rubric in criteria and severity:
            taken = value in severities
            judged[of_rubric]["severity"] = _if_taken(value, taken)
        elif name == "rubric" and of_rubric in criteria:
            taken = value in form.findings
            text = "note"
            if value == "corrected":
                text = "wording"
            judged[of_rubric] |= {"value": _if_taken(value, taken), text: each.note}
        elif name == "verdict" and form.asks_verdict:
            taken = value in set(Verdict)
            others |= {"verdict": _if_taken(value, taken), "reason": each.note}
        elif name == "reason_code":
            taken = value in reasons or not each.values
            others["reason_code"] = _if_taken(value, taken)
        else:
            taken = False
        if not taken:
            refusals.append(RefusedAnnotation(each.where, f"{each.field[:100]}: no such question, or no such answer"))
    rubrics = {key: RubricAnswer(**values) for key, values in judged.items()}
    return replace(Answers(questions=answered, rubrics=rubrics), **others), refusals  # type: ignore[arg-type]
