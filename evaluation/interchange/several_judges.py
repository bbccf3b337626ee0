"""Imported studies with several judges, whose verdicts become votes decided by majority."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from evaluation.models import Judgment, Run, RunJudge, Vote
from evaluation.runs import queries
from evaluation.runs.rows.votes import CountedVote, decide_judgments, panel_of, panel_verdict
from generation.common.chunks import CHUNK
from generation.models import Endpoint
from generation.models.work import Work

Status = Work.Status
Verdict = tuple[str, str]  # the verdict and '', or '' and the error
VoteRow = tuple[int, int, int, Verdict, str]  # response, rubric, judge, verdict, explanation


def judge_named(run: Run, name: str) -> Endpoint | None:
    """The judge of the study whose endpoint or model has this name."""
    return next((judge for judge in queries.judges_of(run) if name in (judge.name, judge.model)), None)


def add_judge(run: Run, judge: Endpoint, *, first: Endpoint) -> None:
    """Add a judge. With the second judge, existing verdicts become the votes of the first."""
    RunJudge.objects.create(run=run, endpoint=judge)
    if run.panel:
        return
    run.panel = Run.Panel.MAJORITY
    run.save(update_fields=["panel"])
    judgments, last = Judgment.objects.filter(run=run).order_by("pk"), 0
    while chunk := list(judgments.filter(pk__gt=last)[:CHUNK]):
        last = chunk[-1].pk
        Vote.objects.bulk_create(
            Vote(
                run=run,
                judgment=judgment,
                judge=first,
                **{name: getattr(judgment, name) for name in ("status", "verdict", "error", "explanation")},
            )
            for judgment in chunk
        )


def votes_on(run: Run, responses: Iterable[int]) -> Iterable[tuple[int, int, int, str, str]]:
    """(response, rubric, judge, verdict, error) of every vote on these responses."""
    votes = Vote.objects.filter(run=run, judgment__response__in=responses)
    return votes.values_list("judgment__response", "judgment__rubric", "judge", "verdict", "error")


def store_votes(run: Run, votes: Sequence[VoteRow]) -> None:
    """Store votes, and decide or re-decide the criteria they are on."""
    of_judgment: dict[tuple[int, int], list[CountedVote]] = defaultdict(list)
    for response, rubric, judge, (verdict, error), explanation in votes:
        of_judgment[response, rubric].append(CountedVote(judge, 0, verdict, error, explanation))
    existing = Judgment.objects.filter(run=run, response__in={response for response, _rubric in of_judgment})
    rows = existing.values_list("pk", "response_id", "rubric_id")
    pks = {(response, rubric): pk for pk, response, rubric in rows if (response, rubric) in of_judgment}
    existing_pks, panel = list(pks.values()), panel_of(run)
    new = [key for key in of_judgment if key not in pks]
    decisions = [panel_verdict(panel, of_judgment[key]) for key in new]
    judgments = Judgment.objects.bulk_create(
        Judgment(
            run=run,
            response_id=response,
            rubric_id=rubric,
            status=Status.DONE if decision.verdict else Status.FAILED,
            **decision._asdict(),
        )
        for (response, rubric), decision in zip(new, decisions, strict=True)
    )
    pks.update(zip(new, (judgment.pk for judgment in judgments), strict=True))
    Vote.objects.bulk_create(
        Vote(
            run=run,
            judgment_id=pks[key],
            judge_id=vote.judge_id,
            repeat=vote.repeat,
            verdict=vote.verdict,
            error=vote.error,
            explanation=vote.explanation,
            status=Status.DONE if vote.verdict else Status.FAILED,
        )
        for key, counted_votes in of_judgment.items()
        for vote in counted_votes
    )
    undecided = {"status": Status.QUEUED, "verdict": "", "explanation": "", "error": "", "detail": ""}
    Judgment.objects.filter(pk__in=existing_pks).update(**undecided)
    decide_judgments(panel, existing_pks)
