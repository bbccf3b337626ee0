"""Queries on cases: lists for admins, the history of a case, and its settled outcome."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Count, Exists, Min, OuterRef, Prefetch, Q, QuerySet
from django.db.models.fields.json import KeyTextTransform, KeyTransform
from django.utils import timezone
from django.utils.translation import gettext_noop

from review.access.visibility import counted_reviews
from review.common.figures import figure
from review.models import Assignment, Case, Event, User
from review.rules import consolidation
from review.rules.case_spec import UNDETERMINED, answers_from_json
from review.rules.citations import Citation
from review.rules.consolidation import SettledRubric
from review.rules.state_machine import ADJUDICATORS, FINAL, NOT_SAMPLED, Ground, Role, State, Verdict

IDLE_AFTER = timedelta(days=7)
IDLE = "idle"  # value of the state filter: cases without activity for IDLE_AFTER


@dataclass(frozen=True, slots=True)
class Funnel:
    """The number of cases in each state, and when the oldest open one of each was opened.

    `unreviewed`: cases that were not sampled for review.
    """

    counts: dict[str, int]
    oldest: dict[str, datetime]
    unreviewed: int = 0


@figure(("",))
def funnel(benchmark: str = "") -> Funnel:
    """Count cases by state, including states without cases.

    Copies are not counted, and cases not sampled for review are counted separately.
    """
    rows = Case.objects.filter(kind=Case.Kind.WORK)
    if benchmark:
        rows = rows.filter(benchmark=benchmark)
    groups = rows.values("state", unreviewed=Q(ground=Ground.UNREVIEWED)).annotate(
        n=Count("id"), oldest=Min("opened_at")
    )
    unreviewed = 0
    counts = {state.value: 0 for state in State}
    oldest = {}
    for row in groups.order_by():
        if row["unreviewed"]:
            unreviewed += row["n"]
            continue
        counts[row["state"]] = row["n"]
        if not State(row["state"]).final and row["oldest"] is not None:
            oldest[row["state"]] = row["oldest"]
    return Funnel(unreviewed=unreviewed, counts=counts, oldest=oldest)


def idle(cases: QuerySet[Case]) -> QuerySet[Case]:
    """The cases that wait for a reviewer and had no activity for IDLE_AFTER."""
    before = timezone.now() - IDLE_AFTER
    recent = Event.objects.filter(case=OuterRef("pk"), at__gte=before)
    waiting = cases.exclude(state__in=[*FINAL, State.ADJUDICATION])
    return waiting.filter(~Exists(recent), opened_at__lt=before)


def cases(
    *,
    state: str = "",
    benchmark: str = "",
    text: str = "",
    kind: str = "",
    specialty: str = "",
    language: str = "",
    assignee: User | None = None,
) -> QuerySet[Case]:
    """Cases for the admin's list, newest first.

    Args:
        state: a state, NOT_SAMPLED (such cases are not listed as approved) or IDLE.
        kind: WORK by default; copies have kinds of their own.
        assignee: who holds a role of the case, or has one reserved.
    """
    rows = Case.objects.filter(kind=kind or Case.Kind.WORK).order_by("-id")
    if state == NOT_SAMPLED:
        rows = rows.filter(ground=Ground.UNREVIEWED)
    elif state == IDLE:
        rows = idle(rows)
    elif state:
        rows = rows.filter(state=state).exclude(ground=Ground.UNREVIEWED)
    exact = {"benchmark": benchmark, "specialty": specialty, "language": language}
    rows = rows.filter(**{name: value for name, value in exact.items() if value})
    if assignee:
        theirs = current_assignments().filter(Q(physician=assignee) | Q(reserved_for=assignee))
        rows = rows.filter(pk__in=theirs.values("case"))
    if text:
        rows = rows.filter(Q(title__icontains=text) | Q(lineage__icontains=text))
    return rows


def current_assignments() -> QuerySet[Assignment]:
    """The assignments that somebody holds or has reserved, with the physicians."""
    held = Q(hold=Assignment.Hold.HELD) | Q(hold=Assignment.Hold.OPEN, reserved_for__isnull=False)
    return Assignment.objects.filter(held).select_related("physician", "reserved_for").order_by("pk")


def assignments_of(case: Case) -> QuerySet[Assignment]:
    """All assignments of a case, with their physicians."""
    return case.assignments.select_related("case", "physician", "reserved_for").order_by("id")


def held_assignments() -> QuerySet[Assignment]:
    """All assignments that physicians hold now, the one whose lease ends first coming first."""
    held = Assignment.objects.filter(hold=Assignment.Hold.HELD)
    return held.select_related("case", "physician", "reserved_for").order_by("lease_until")


def with_assignees(cases: QuerySet[Case]) -> QuerySet[Case]:
    """Cases with their `current_assignments`: one more query."""
    return cases.prefetch_related(Prefetch("assignments", current_assignments(), to_attr="current_assignments"))


def trail(case: Case) -> QuerySet[Event]:
    """The events of a case, in order."""
    return Event.objects.filter(case=case).select_related("actor")


def versions(case: Case) -> QuerySet[Case]:
    """The cases of all versions of the same sample, in order."""
    return Case.objects.filter(lineage=case.lineage).order_by("version")


def benchmarks() -> list[str]:
    """The benchmarks that have cases."""
    return list(Case.objects.values_list("benchmark", flat=True).distinct().order_by("benchmark"))


def specialties() -> list[str]:
    """The specialties that open cases require."""
    rows = Case.objects.filter(closed_at__isnull=True).exclude(specialty="")
    return list(rows.values_list("specialty", flat=True).distinct().order_by("specialty"))


def languages() -> list[str]:
    """The languages of open cases, UNDETERMINED first."""
    rows = Case.objects.filter(closed_at__isnull=True).exclude(language="")
    codes = rows.values_list("language", flat=True).distinct().order_by("language")
    return sorted(codes, key=lambda code: code != UNDETERMINED)


def languages_missing() -> int:
    """The number of open cases whose language an admin has to set."""
    return Case.objects.filter(closed_at__isnull=True, language=UNDETERMINED, kind=Case.Kind.WORK).count()


@dataclass(frozen=True, slots=True)
class SettledCase:
    """What the physicians agreed on in an approved case, or why they rejected it.

    Attributes:
        rubrics, citations: of an approved case.
        reasons: of a rejected case.
        reducible: whether another version can fix a rejected case.
        answers: role/phase -> answers, for the export.
    """

    state: State
    ground: str
    rubrics: tuple[SettledRubric, ...]
    citations: tuple[Citation, ...]
    reasons: tuple[str, ...]
    reducible: bool
    answers: dict[str, dict[str, Any]]


def settled_case(case: Case) -> SettledCase:
    """The result of a closed case, from the reviews that count.

    Rubrics are as left by the last reviewers who saw everybody's answers, with the median of all
    raters' levels of harm (see `consolidation.settled_rubrics`). Citations are those of all who
    approved. Reasons are those of all who speak for rejection; whether they can be fixed is decided
    by the adjudicators or, without any, by all who rejected. A rubric found inadequate can always
    be fixed.
    """
    reviews = list(counted_reviews().filter(case=case).order_by("id"))
    last = {Role(review.role): review for review in reviews}
    last = {role: last[role] for role in Role if role in last}  # in the order of the workflow
    spec, by_role = case.frozen, {role: answers_from_json(review.answers) for role, review in last.items()}
    adjudicators = [answers for role, answers in by_role.items() if role in ADJUDICATORS]
    first_two = [answers for role, answers in by_role.items() if role not in ADJUDICATORS]
    settled = SettledCase(
        state=State(case.state),
        ground=case.ground,
        rubrics=(),
        citations=(),
        reasons=(),
        reducible=False,
        answers={f"{review.role}/{review.phase}": review.answers for review in reviews},
    )
    if case.state == State.APPROVED:
        # Without a confirmation the secondary never saw the primary's answers, so both decide.
        deciding = adjudicators or first_two
        if not adjudicators and spec.policy.secondary_confirms:
            deciding = first_two[-1:]
        approvals = [answers for answers in by_role.values() if answers.verdict == Verdict.APPROVE]
        return replace(
            settled,
            rubrics=consolidation.settled_rubrics(spec.form, deciding, list(by_role.values())),
            citations=consolidation.merged_citations(approvals),
        )
    if case.state == State.REJECTED:
        reasons: dict[str, None] = {}
        for answers in by_role.values():
            reasons |= dict.fromkeys(consolidation.rejection_reasons(spec.form, answers))
        rejections = [answers for answers in adjudicators or first_two if answers.verdict == Verdict.REJECT]
        has_inadequate = any(review.inadequate for review in last.values())
        is_reducible = has_inadequate or consolidation.is_reducible(spec.form, rejections)
        return replace(settled, reasons=tuple(reasons), reducible=is_reducible)
    return settled


def rejection_labels(cases: QuerySet[Any]) -> dict[int, str]:
    """Why each of these rejected cases was rejected, as a msgid: case -> label.

    That is the ground if it says so (a rubric inadequate, undecided), else the reason that the
    deciding physicians chose, the adjudicators before the two reviewers, of several the first. Two
    queries.
    """
    rows = Case.objects.filter(pk__in=cases, state=State.REJECTED)
    columns = rows.values_list("pk", "ground", KeyTransform("reasons", KeyTransform("form", "spec")))
    labels: dict[int, str] = {}
    reasons: dict[int, dict[str, str]] = {}
    for pk, ground, listed in columns.iterator(chunk_size=1000):
        if ground in _TELLING:
            labels[pk] = _TELLING[Ground(ground)]
        else:
            reasons[pk] = {reason["code"]: reason["label"] for reason in listed or ()}
    reviews = counted_reviews().filter(case__in=reasons, verdict=Verdict.REJECT).order_by("id")
    code_of = KeyTextTransform("reason_code", "answers")
    by_role: dict[int, dict[str, str]] = {}
    for pk, role, code in reviews.values_list("case", "role", code_of).iterator(chunk_size=1000):
        by_role.setdefault(pk, {})[role] = code or ""  # the latest review of each role counts
    for pk, known in reasons.items():
        chosen = by_role.get(pk, {})
        codes = [chosen[role] for role in (*ADJUDICATORS, *Role) if chosen.get(role)]
        labels[pk] = known.get(codes[0], codes[0]) if codes else ""
    return labels


_TELLING = {
    Ground.RUBRIC_INADEQUATE: gettext_noop("a rubric was judged inadequate"),
    Ground.UNDECIDED: gettext_noop("the adjudicators could not agree"),
}
