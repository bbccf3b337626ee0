"""Votes of a panel: queued with their judgment, which is decided when the last vote is stored."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from django.db.models import Exists, OuterRef, QuerySet

from evaluation import panel
from evaluation.models import Judgment, Run, Vote
from evaluation.panel import Rule
from evaluation.runs import queries
from generation.engine.task_queue import finish_all
from generation.models.work import Work

Status = Work.Status
OPEN = (Status.QUEUED, Status.RUNNING)
End = tuple[Vote, Work.Status, Mapping[str, Any]]  # a vote, its final status and fields


@dataclass(frozen=True, slots=True)
class Panel:
    """The panel of a run: ids of the judges in order, rule, and judgments per judge."""

    run: int
    rule: str
    judges: tuple[int, ...]
    judgments: int

    @property
    def first(self) -> tuple[int, ...]:
        """The judges that vote on every criterion."""
        return self.judges[: panel.INITIAL_JUDGES] if self.rule == Rule.ESCALATION else self.judges

    def new_votes(self, judgment: int, judges: Iterable[int]) -> list[Vote]:
        """New, unsaved votes of these judges on a judgment."""
        return [
            Vote(run_id=self.run, judgment_id=judgment, judge_id=judge, repeat=repeat)
            for judge in judges
            for repeat in range(self.judgments)
        ]


def panel_of(run: Run) -> Panel:
    """The panel of a run."""
    return Panel(run.pk, run.panel, tuple(judge.pk for judge in queries.judges_of(run)), run.judgments_each)


def votes_to_take(run: Run, judges: Collection[int]) -> QuerySet[Vote]:
    """The queue of votes of these judges.

    If one call decides on a whole sample, only the first open vote of each call.
    """
    queue = Vote.objects.filter(run=run, judge__in=judges).order_by("pk")
    if run.judging == Run.Judging.PER_RUBRIC:
        return queue
    same = {name: OuterRef(name) for name in ("judgment__response", "judge", "repeat")}
    earlier = Vote.objects.filter(run=run, pk__lt=OuterRef("pk"), status__in=OPEN, **same)
    return queue.filter(~Exists(earlier))


def votes_beside(vote: Vote) -> QuerySet[Vote]:
    """The other votes that the same call for a whole sample decides."""
    same_call = Vote.objects.filter(
        judgment__response=vote.judgment.response_id, judge=vote.judge_id, repeat=vote.repeat
    )
    return same_call.exclude(pk=vote.pk)


def queue_votes(run_panel: Panel, responses: Collection[int]) -> None:
    """Queue the first votes on the open judgments of these responses."""
    judgments = Judgment.objects.filter(response__in=responses, status=Status.QUEUED).order_by("pk")
    votes = [vote for pk in judgments.values_list("pk", flat=True) for vote in run_panel.new_votes(pk, run_panel.first)]
    Vote.objects.bulk_create(votes, ignore_conflicts=True)


def store_votes(run_panel: Panel, ends: Sequence[End]) -> list[bool]:
    """Store ended votes like `finish_all`, and decide judgments whose last vote has ended."""
    was_stored = finish_all(ends)
    decide_judgments(run_panel, {row.judgment_id for (row, _, _), ours in zip(ends, was_stored, strict=True) if ours})
    return was_stored


def decide_judgments(run_panel: Panel, pks: Collection[int]) -> None:
    """Decide these judgments, except those with an open vote.

    Locks the judgments, so that of two transactions that end the last two votes, the second sees
    both votes.
    """
    rows = Judgment.objects.filter(pk__in=pks, status=Status.QUEUED)
    locked = {row.pk: row for row in rows.select_for_update(of=("self",), no_key=True).order_by("pk")}
    by_judgment: dict[int, list[Vote]] = defaultdict(list)
    for vote in Vote.objects.filter(judgment__in=locked).order_by("judgment", "repeat", "pk"):
        by_judgment[vote.judgment_id].append(vote)
    escalated: list[Vote] = []
    decided = []
    for pk, votes in by_judgment.items():
        if any(vote.status in OPEN for vote in votes):
            continue
        verdicts = by_judge(run_panel, votes)
        if run_panel.rule == Rule.ESCALATION and len(verdicts) == panel.INITIAL_JUDGES and panel.is_disputed(verdicts):
            escalated += run_panel.new_votes(pk, run_panel.judges[panel.INITIAL_JUDGES :])
            continue
        outcome, judgment = panel_verdict(run_panel, votes), locked[pk]
        if outcome.verdict:
            judgment.status, judgment.verdict, judgment.explanation = Status.DONE, outcome.verdict, outcome.explanation
        else:
            judgment.status, judgment.error, judgment.detail = Status.FAILED, outcome.error, outcome.detail
        decided.append(judgment)
    Vote.objects.bulk_create(escalated)
    Judgment.objects.bulk_update(decided, ["status", "verdict", "explanation", "error", "detail"])


class CountedVote(NamedTuple):
    """The fields of a vote that a verdict depends on."""

    judge_id: int
    repeat: int
    verdict: str
    error: str
    explanation: str


class PanelVerdict(NamedTuple):
    """The outcome of the votes on a criterion.

    `verdict`: '' if the rule gives none; `error`, `detail` then say why.
    """

    verdict: str
    explanation: str = ""
    error: str = ""
    detail: str = ""


def by_judge(run_panel: Panel, votes: Iterable[Vote | CountedVote]) -> list[list[str]]:
    """The verdicts of each judge who voted, in the order of the panel."""
    verdicts: dict[int, list[str]] = {judge: [] for judge in run_panel.judges}
    for vote in votes:
        if vote.judge_id in verdicts:
            verdicts[vote.judge_id].append(vote.verdict)
    return [judge_verdicts for judge_verdicts in verdicts.values() if judge_verdicts]


def panel_verdict(run_panel: Panel, votes: Sequence[Vote | CountedVote]) -> PanelVerdict:
    """The panel's verdict from these votes, all of which have ended."""
    verdicts = by_judge(run_panel, votes)
    verdict = panel.decide(run_panel.rule, verdicts)
    if verdict:
        order = sorted(votes, key=lambda vote: (run_panel.judges.index(vote.judge_id), vote.repeat))
        return PanelVerdict(verdict, panel.explanation(verdict, [(vote.verdict, vote.explanation) for vote in order]))
    errors = [vote.error for vote in votes if vote.error]
    # If every vote failed, the error is that of the first; otherwise there is no majority.
    error = errors[0] if len(errors) == len(votes) else panel.NO_MAJORITY
    return PanelVerdict("", error=error, detail=panel.vote_summary(verdicts))
