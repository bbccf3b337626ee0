"""Votes of a panel: queued with the judgment, and decided from in the transaction in which the last of them ends."""

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
End = tuple[Vote, Work.Status, Mapping[str, Any]]  # of a vote: how, and with what


@dataclass(frozen=True, slots=True)
class Panel:
    """The judges of a run by their numbers in the order of the panel, its rule, and how often each judges."""

    run: int
    rule: str
    judges: tuple[int, ...]
    judgments: int

    @property
    def first(self) -> tuple[int, ...]:
        """The judges who vote on everything."""
        return self.judges[: panel.INITIAL_JUDGES] if self.rule == Rule.ESCALATION else self.judges

    def votes(self, judgment: int, judges: Iterable[int]) -> list[Vote]:
        """The votes of these judges on a judgment, to be stored."""
        return [
            Vote(run_id=self.run, judgment_id=judgment, judge_id=judge, repeat=repeat)
            for judge in judges
            for repeat in range(self.judgments)
        ]


def panel_of(run: Run) -> Panel:
    """The panel of a run."""
    return Panel(run.pk, run.panel, tuple(judge.pk for judge in queries.judges_of(run)), run.judgments_each)


def votes_to_take(run: Run, judges: Collection[int]) -> QuerySet[Vote]:
    """The queue of votes of these judges. Where a judge decides on a whole sample at once, the first of each such call."""
    queue = Vote.objects.filter(run=run, judge__in=judges).order_by("pk")
    if run.judging == Run.Judging.PER_RUBRIC:
        return queue
    same = {name: OuterRef(name) for name in ("judgment__response", "judge", "repeat")}
    earlier = Vote.objects.filter(run=run, pk__lt=OuterRef("pk"), status__in=OPEN, **same)
    return queue.filter(~Exists(earlier))


def votes_beside(vote: Vote) -> QuerySet[Vote]:
    """The other votes that one call for a whole sample decides with this one."""
    beside = Vote.objects.filter(judgment__response=vote.judgment.response_id, judge=vote.judge_id, repeat=vote.repeat)
    return beside.exclude(pk=vote.pk)


def queue_votes(of: Panel, responses: Collection[int]) -> None:
    """Queue the first votes on the open judgments of these responses."""
    judgments = Judgment.objects.filter(response__in=responses, status=Status.QUEUED).order_by("pk")
    votes = [vote for pk in judgments.values_list("pk", flat=True) for vote in of.votes(pk, of.first)]
    Vote.objects.bulk_create(votes, ignore_conflicts=True)


def keep_votes(of: Panel, ends: Sequence[End]) -> list[bool]:
    """`finish_all` for votes, and the judgments decided whose last vote this was."""
    kept = finish_all(ends)
    decide_judgments(of, {row.judgment_id for (row, _, _), was_ours in zip(ends, kept, strict=True) if was_ours})
    return kept


def decide_judgments(of: Panel, pks: Collection[int]) -> None:
    """Decide those of these judgments on which no vote is open.

    Under a lock on the judgments: of two transactions that end the last two votes, the second one sees both.
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
        said = by_judge(of, votes)
        if of.rule == Rule.ESCALATION and len(said) == panel.INITIAL_JUDGES and panel.is_disputed(said):
            escalated += of.votes(pk, of.judges[panel.INITIAL_JUDGES :])
            continue
        found, judgment = panel_verdict(of, votes), locked[pk]
        if found.verdict:
            judgment.status, judgment.verdict, judgment.explanation = Status.DONE, found.verdict, found.explanation
        else:
            judgment.status, judgment.error, judgment.detail = Status.FAILED, found.error, found.detail
        decided.append(judgment)
    Vote.objects.bulk_create(escalated)
    Judgment.objects.bulk_update(decided, ["status", "verdict", "explanation", "error", "detail"])


class CountedVote(NamedTuple):
    """One vote, as far as a verdict follows from it."""

    judge_id: int
    repeat: int
    verdict: str
    error: str
    explanation: str


class PanelVerdict(NamedTuple):
    """What the votes on a criterion come to. `verdict`: '' where the rule gives none; `error`, `detail`: why."""

    verdict: str
    explanation: str = ""
    error: str = ""
    detail: str = ""


def by_judge(of: Panel, votes: Iterable[Vote | CountedVote]) -> list[list[str]]:
    """The verdicts of each judge who voted, in the order of the panel."""
    told: dict[int, list[str]] = {judge: [] for judge in of.judges}
    for vote in votes:
        if vote.judge_id in told:
            told[vote.judge_id].append(vote.verdict)
    return [own for own in told.values() if own]


def panel_verdict(of: Panel, votes: Sequence[Vote | CountedVote]) -> PanelVerdict:
    """What these votes, which have all ended, come to."""
    said = by_judge(of, votes)
    verdict = panel.decide(of.rule, said)
    if verdict:
        order = sorted(votes, key=lambda vote: (of.judges.index(vote.judge_id), vote.repeat))
        return PanelVerdict(verdict, panel.explanation(verdict, [(vote.verdict, vote.explanation) for vote in order]))
    errors = [vote.error for vote in votes if vote.error]
    # Where no vote came, why none did; a majority is what is missing only where somebody voted.
    error = errors[0] if len(errors) == len(votes) else panel.NO_MAJORITY
    return PanelVerdict("", error=error, detail=panel.vote_summary(said))
