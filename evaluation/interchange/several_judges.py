"""Imported studies with several judges, whose verdicts become votes decided by majority."""

import re
from collections.abc import Iterable, Sequence

from evaluation.models import Judgment, Run, RunJudge, Vote
from evaluation.runs import queries
from evaluation.runs.rows.votes import decide_judgments, panel_of
from generation.common.chunks import CHUNK
from generation.models import Endpoint
from generation.models.work import Work

Status = Work.Status
Verdict = tuple[str, str]  # the verdict and '', or '' and the error
VoteRow = tuple[int, int, int, Verdict, str]  # response, rubric, judge, verdict, explanation


def judge_named(run: Run, name: str) -> Endpoint | None:
    """The judge of the study whose endpoint or model has this name, with or without provider."""
    judges = queries.judges_of(run)
    for judge in judges:
        if name in (judge.name, judge.model):
            return judge
    for judge in judges:
        if is_same_model(name, judge.model):
            return judge
    return None


def is_same_model(first: str, second: str) -> bool:
    """Whether two tools name one model, of which one adds its provider ('openai/gpt-x', 'gpt-x').

    Two names with different providers are not the same.
    """
    short, long = sorted([re.split("[/:]", first.casefold()), re.split("[/:]", second.casefold())], key=len)
    return long[-len(short) :] == short


def add_judge(run: Run, judge: Endpoint) -> None:
    """Add a judge. With the second judge, existing verdicts become the votes of the first."""
    RunJudge.objects.create(run=run, endpoint=judge)
    if run.panel:
        return
    run.panel = Run.Panel.MAJORITY
    run.save(update_fields=["panel"])
    first = queries.judges_of(run)[0]
    judgments, last = Judgment.objects.filter(run=run).order_by("pk"), 0
    while chunk := list(judgments.filter(pk__gt=last)[:CHUNK]):
        last = chunk[-1].pk
        votes = []
        for judgment in chunk:
            vote = Vote(run=run, judgment=judgment, judge=first, status=judgment.status, error=judgment.error)
            vote.verdict, vote.explanation = judgment.verdict, judgment.explanation
            votes.append(vote)
        Vote.objects.bulk_create(votes)


def votes_on(run: Run, responses: Iterable[int]) -> Iterable[tuple[int, int, int, str, str]]:
    """(response, rubric, judge, verdict, error) of every vote on these responses."""
    votes = Vote.objects.filter(run=run, judgment__response__in=responses)
    return votes.values_list("judgment__response", "judgment__rubric", "judge", "verdict", "error")


def store_votes(run: Run, votes: Sequence[VoteRow]) -> None:
    """Store votes, and decide or re-decide the criteria they are on."""
    criteria = dict.fromkeys([(response, rubric) for response, rubric, *_vote in votes])
    judgments = Judgment.objects.filter(run=run, response__in={response for response, _rubric in criteria})
    known = {(row.response_id, row.rubric_id): row for row in judgments.only("response_id", "rubric_id")}
    reopened, new = [], []
    for response, rubric in criteria:
        if (response, rubric) in known:
            reopened.append(known[response, rubric].pk)
        else:
            new.append(Judgment(run=run, response_id=response, rubric_id=rubric))
    opened = {"status": Status.QUEUED, "verdict": "", "explanation": "", "error": "", "detail": ""}
    judgments.filter(pk__in=reopened).update(**opened)
    for judgment in Judgment.objects.bulk_create(new):
        known[judgment.response_id, judgment.rubric_id] = judgment
    cast = []
    for response, rubric, judge, (verdict, error), explanation in votes:
        vote = Vote(run=run, judgment_id=known[response, rubric].pk, judge_id=judge, verdict=verdict, error=error)
        vote.explanation, vote.status = explanation, Status.DONE
        if not verdict:
            vote.status = Status.FAILED
        cast.append(vote)
    Vote.objects.bulk_create(cast)
    decide_judgments(panel_of(run), [known[criterion].pk for criterion in criteria])
