"""Cases as admins list them, their history, and the settled outcome that producers read."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Count, Exists, Min, OuterRef, Q, QuerySet
from django.utils import timezone

from review.access.visibility import counted_reviews
from review.models import Case, Event, Review
from review.rules import consolidation
from review.rules.case_spec import UNDETERMINED, answers_from_json
from review.rules.citations import Citation
from review.rules.consolidation import SettledRubric
from review.rules.state_machine import ADJUDICATORS, FINAL, NOT_SAMPLED, Ground, Role, State, Verdict

LONG = timedelta(days=7)
IDLE = "idle"  # for the filter: of which nothing was heard for LONG


@dataclass(frozen=True, slots=True)
class Funnel:
    """How many cases stand in each state, and since when the oldest one waits. `unreviewed`: those nobody was to review."""

    counts: dict[str, int]
    oldest: dict[str, datetime]
    unreviewed: int = 0


def funnel(benchmark: str | None = None) -> Funnel:
    """Counts of cases by state; every state is named, empty ones with 0. Copies for training are not counted, and cases that
    nobody was to review are counted apart."""
    rows = Case.objects.filter(kind=Case.Kind.WORK, **({"benchmark": benchmark} if benchmark else {}))
    by_state = rows.values("state", aside=Q(ground=Ground.UNREVIEWED)).annotate(n=Count("id"), oldest=Min("opened_at"))
    every = list(by_state.order_by())
    found = {row["state"]: row for row in every if not row["aside"]}
    return Funnel(
        unreviewed=sum(row["n"] for row in every if row["aside"]),
        counts={state.value: found[state]["n"] if state in found else 0 for state in State},
        oldest={
            state: row["oldest"] for state, row in found.items() if not State(state).final and row["oldest"] is not None
        },
    )


def idle(cases: QuerySet[Case]) -> QuerySet[Case]:
    """Those that wait for a reviewer, and of which nothing was heard for LONG."""
    before = timezone.now() - LONG
    moved = Event.objects.filter(case=OuterRef("pk"), at__gte=before)
    waiting = cases.exclude(state__in=[*FINAL, State.ADJUDICATION])
    return waiting.filter(~Exists(moved), opened_at__lt=before)


def cases(
    *, state: str = "", benchmark: str = "", text: str = "", kind: str = "", specialty: str = "", language: str = ""
) -> QuerySet[Case]:
    """Cases for the admin's board, newest first. Without a `kind`, those that count: copies for training have their own.

    `state` is a state, NOT_SAMPLED (what nobody was to review is not among the approved) or IDLE.
    """
    found = Case.objects.filter(kind=kind or Case.Kind.WORK).order_by("-id")
    if state == NOT_SAMPLED:
        found = found.filter(ground=Ground.UNREVIEWED)
    elif state == IDLE:
        found = idle(found)
    elif state:
        found = found.filter(state=state).exclude(ground=Ground.UNREVIEWED)
    if benchmark:
        found = found.filter(benchmark=benchmark)
    if specialty:
        found = found.filter(specialty=specialty)
    if language:
        found = found.filter(language=language)
    if text:
        found = found.filter(Q(title__icontains=text) | Q(lineage__icontains=text))
    return found


def trail(case: Case) -> QuerySet[Event]:
    """Everything that happened to a case, in order."""
    return Event.objects.filter(case=case).select_related("actor")


def versions(case: Case) -> QuerySet[Case]:
    """All versions of the same sample, the first one first."""
    return Case.objects.filter(lineage=case.lineage).order_by("version")


def benchmarks() -> list[str]:
    """The benchmarks that have cases."""
    return list(Case.objects.values_list("benchmark", flat=True).distinct().order_by("benchmark"))


def specialties() -> list[str]:
    """The specialties that open cases ask for."""
    asked = Case.objects.filter(closed_at__isnull=True).exclude(specialty="")
    return list(asked.values_list("specialty", flat=True).distinct().order_by("specialty"))


def languages() -> list[str]:
    """The languages of open cases, UNDETERMINED first."""
    asked = Case.objects.filter(closed_at__isnull=True).exclude(language="")
    found = asked.values_list("language", flat=True).distinct().order_by("language")
    return sorted(found, key=lambda code: code != UNDETERMINED)


def languages_missing() -> int:
    """How many open cases wait for an admin to name their language."""
    return Case.objects.filter(closed_at__isnull=True, language=UNDETERMINED, kind=Case.Kind.WORK).count()


@dataclass(frozen=True, slots=True)
class SettledCase:
    """What the physicians agreed on in an approved case, or why it was rejected.

    rubrics and citations are of an approved case, reasons and `reducible` (another version can mend it) of a rejected one.
    answers: role/phase -> answers, for the export.
    """

    state: State
    ground: str
    rubrics: tuple[SettledRubric, ...]
    citations: tuple[Citation, ...]
    reasons: tuple[str, ...]
    reducible: bool
    answers: dict[str, dict[str, Any]]

    @property
    def standing(self) -> tuple[SettledRubric, ...]:
        """The rubrics that were not removed."""
        return tuple(rubric for rubric in self.rubrics if not rubric.removed)


def settled_case(case: Case) -> SettledCase:
    """The result of a closed case, from the reviews that count.

    Rubrics stand as the last to see everybody's left them (see `consolidation.rubrics`), with the median of all raters' harm.
    Evidence is that of all who approved.
    Reasons are those of all who speak for rejection; whether they can be mended, say those who decided: the adjudicators
    where it came to them, else all who rejected. A rubric found inadequate can always be mended.
    """
    reviews = list(counted_reviews().filter(case=case).order_by("id"))
    last = _last_of_each_role(reviews)
    spec, said = case.frozen, {role: answers_from_json(review.answers) for role, review in last.items()}
    adjudicators = [answers for role, answers in said.items() if role in ADJUDICATORS]
    both = [answers for role, answers in said.items() if role not in ADJUDICATORS]
    approved, rejected = case.state == State.APPROVED, case.state == State.REJECTED
    # A secondary who has not confirmed never saw the primary's answers: then both decide.
    deciding = adjudicators or (both[-1:] if spec.policy.secondary_confirms else both)
    rejections = [answers for answers in adjudicators or both if answers.verdict == Verdict.REJECT]
    reasons = dict.fromkeys(reason for answers in said.values() for reason in consolidation.reasons(spec.form, answers))
    return SettledCase(
        state=State(case.state),
        ground=case.ground,
        rubrics=consolidation.rubrics(spec.form, deciding, list(said.values())) if approved else (),
        citations=consolidation.citations([each for each in said.values() if each.verdict == Verdict.APPROVE])
        if approved
        else (),
        reasons=tuple(reasons) if rejected else (),
        reducible=rejected
        and (any(r.inadequate for r in last.values()) or consolidation.reducible(spec.form, rejections)),
        answers={f"{review.role}/{review.phase}": review.answers for review in reviews},
    )


def _last_of_each_role(reviews: Iterable[Review]) -> dict[Role, Review]:
    """The last word of each role that has spoken, in the order of the workflow."""
    last = {Role(review.role): review for review in reviews}
    return {role: last[role] for role in Role if role in last}
