"""Votes of a panel: queued with their judgment, which is decided when the last vote is stored."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any

from django.db.models import Exists, OuterRef, Q, QuerySet

from evaluation import panel
from evaluation.models import Judgment, Run, Vote
from evaluation.panel import Rule
from evaluation.runs import queries
from generation.common.chunks import CHUNK, chunked
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

    def asked(self) -> tuple[int, ...]:
        """The judges that are not left out by now."""
        left_out = Run.objects.values_list("judges_left_out", flat=True).get(pk=self.run)
        return tuple([judge for judge in self.judges if str(judge) not in left_out])

    def first(self) -> tuple[int, ...]:
        """The judges that vote on every criterion."""
        if self.rule == Rule.ESCALATION:
            return self.asked()[: panel.INITIAL_JUDGES]
        return self.asked()

    def new_votes(self, judgments: Iterable[int], judges: Sequence[int]) -> list[Vote]:
        """New, unsaved votes of these judges on judgments."""
        votes = []
        for judgment in judgments:
            for judge in judges:
                for repeat in range(self.judgments):
                    votes.append(Vote(run_id=self.run, judgment_id=judgment, judge_id=judge, repeat=repeat))
        return votes


def panel_of(run: Run) -> Panel:
    """The panel of a run."""
    judges = [judge.pk for judge in queries.judges_of(run)]
    return Panel(run.pk, run.panel, tuple(judges), run.judgments_each)


def votes_to_take(run: Run, judges: Collection[int]) -> QuerySet[Vote]:
    """The queue of votes of these judges.

    If one call decides on a whole sample, only the first open vote of each call.
    """
    queue = Vote.objects.filter(run=run, judge__in=judges).order_by("pk")
    if run.judging == Run.Judging.PER_RUBRIC:
        return queue
    earlier = Vote.objects.filter(
        run=run,
        pk__lt=OuterRef("pk"),
        status__in=OPEN,
        judgment__response=OuterRef("judgment__response"),
        judge=OuterRef("judge"),
        repeat=OuterRef("repeat"),
    )
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
    votes = run_panel.new_votes(judgments.values_list("pk", flat=True), run_panel.first())
    Vote.objects.bulk_create(votes, ignore_conflicts=True)


def store_votes(run_panel: Panel, ends: Sequence[End]) -> list[bool]:
    """Store ended votes like `finish_all`, and decide judgments whose last vote has ended."""
    was_stored = finish_all(ends)
    judgments = {vote.judgment_id for vote, _status, _fields in compress(ends, was_stored)}
    decide_judgments(run_panel, judgments)
    return was_stored


def decide_judgments(run_panel: Panel, pks: Collection[int]) -> None:
    """Decide these judgments, except those with an open vote.

    Locks the judgments, so that of two transactions that end the last two votes, the second sees
    both votes.
    """
    rows = Judgment.objects.filter(pk__in=pks, status=Status.QUEUED)
    locked = {row.pk: row for row in rows.select_for_update(of=("self",), no_key=True).order_by("pk")}
    by_judgment: dict[int, list[Vote]] = defaultdict(list)
    counted = Vote.objects.filter(judgment__in=locked).exclude(status=Status.DROPPED)
    for vote in counted.order_by("judgment", "repeat", "pk"):
        by_judgment[vote.judgment_id].append(vote)
    escalated: list[Vote] = []
    decided = []
    for pk, votes in by_judgment.items():
        if any(vote.status in OPEN for vote in votes):
            continue
        verdicts = by_judge(run_panel, votes)
        if run_panel.rule == Rule.ESCALATION and len(verdicts) == panel.INITIAL_JUDGES and panel.is_disputed(verdicts):
            voted = {vote.judge_id for vote in votes}
            others = [judge for judge in run_panel.asked() if judge not in voted]
            if others:
                escalated += run_panel.new_votes([pk], others)
                continue
        _decide(run_panel, locked[pk], votes)
        decided.append(locked[pk])
    Vote.objects.bulk_create(escalated, ignore_conflicts=True)
    Judgment.objects.bulk_update(decided, ["status", "verdict", "explanation", "error", "detail"], batch_size=CHUNK)


def leave_out_judge(run_panel: Panel, judge: int, *, error: str, because: str) -> None:
    """Drop the open votes of a judge, and decide by those of the others.

    Votes that the judge has given count. Where too few judges are left to begin with, the next one
    of the panel votes.
    """
    left = Vote.objects.filter(run=run_panel.run, judge=judge, status__in=OPEN)
    waiting = list(left.order_by("judgment").values_list("judgment", flat=True).distinct())
    for chunk in chunked(iter(waiting)):
        judgments = Judgment.objects.filter(pk__in=chunk, status=Status.QUEUED)
        pks = list(judgments.select_for_update(of=("self",), no_key=True).order_by("pk").values_list("pk", flat=True))
        left.filter(judgment__in=chunk).update(
            status=Status.DROPPED, token=None, lease_until=None, error=error, detail=because
        )
        Vote.objects.bulk_create(run_panel.new_votes(pks, run_panel.first()), ignore_conflicts=True)
        decide_judgments(run_panel, pks)


def add_judge_again(run_panel: Panel, judge: int) -> None:
    """Have a judge vote where it did not while it was left out; those criteria are open again."""
    decided = Judgment.objects.filter(run=run_panel.run, votes__isnull=False).distinct()
    if run_panel.rule == Rule.ESCALATION and judge not in run_panel.first():
        decided = decided.filter(Q(votes__judge=judge) | Q(error=panel.NO_MAJORITY))
    without = decided.exclude(pk__in=Vote.objects.filter(judge=judge).exclude(status=Status.DROPPED).values("judgment"))
    opened: dict[str, Any] = {"status": Status.QUEUED, "error": "", "detail": ""}
    for chunk in chunked(iter(list(without.order_by("pk").values_list("pk", flat=True)))):
        list(Judgment.objects.filter(pk__in=chunk).select_for_update(of=("self",), no_key=True).order_by("pk"))
        Judgment.objects.filter(pk__in=chunk).update(**opened, verdict="", explanation="")
        Vote.objects.filter(judgment__in=chunk, judge=judge).update(**opened, tries=0)
        Vote.objects.bulk_create(run_panel.new_votes(chunk, [judge]), ignore_conflicts=True)


def by_judge(run_panel: Panel, votes: Iterable[Vote]) -> list[list[str]]:
    """The verdicts of each judge who voted, in the order of the panel."""
    verdicts: dict[int, list[str]] = defaultdict(list)
    for vote in votes:
        verdicts[vote.judge_id].append(vote.verdict)
    return [verdicts[judge] for judge in run_panel.judges if judge in verdicts]


def _decide(run_panel: Panel, judgment: Judgment, votes: Sequence[Vote]) -> None:
    """Decide a judgment by these votes, all of which have ended."""
    verdicts = by_judge(run_panel, votes)
    if verdict := panel.decide(run_panel.rule, verdicts):
        order = sorted(votes, key=lambda vote: (run_panel.judges.index(vote.judge_id), vote.repeat))
        judgment.status, judgment.verdict = Status.DONE, verdict
        judgment.explanation = panel.explanation(verdict, [(vote.verdict, vote.explanation) for vote in order])
        return
    # If every vote failed, the error is that of the first; otherwise there is no majority.
    if all(vote.error for vote in votes):
        judgment.error = votes[0].error
    else:
        judgment.error = panel.NO_MAJORITY
    judgment.status, judgment.detail = Status.FAILED, panel.vote_summary(verdicts)
