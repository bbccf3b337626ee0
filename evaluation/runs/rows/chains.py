"""Questions that contain earlier answers: what they are, and what is judged of the answers to them.

A waiting question is a queued row like any other, with the row of the answer that it waits for in `after`; nothing takes it
before that has ended. So a kill between two links loses nothing, and trying a failed answer again holds back what follows it.
"""

from collections.abc import Iterable, Mapping, Sequence

from django.db.models import Q

from evaluation.models import Judgment, Response
from evaluation.protocol import Ask, Protocol, Rubric, Sample
from evaluation.runs import queries
from generation.models import ReleasedSample
from generation.models.work import Work

Status = Work.Status
ENDED = (Status.DONE, Status.FAILED, Status.DROPPED)
READY = Q(after__isnull=True) | Q(after__status__in=ENDED)  # of responses: nothing that they wait for is still open
# Of failed ones: another try would have the same unusable answer before it.
HOPELESS = Q(outcome=Response.Outcome.UNASKED, after__status=Status.DONE)
NO_ANSWER = "NoEarlierAnswer"  # the error of a question that was not asked
Earlier = Mapping[str, str] | None  # variant -> text of the answers before one; None where one of them has no text


def earlier_answers(rows: Iterable[Response]) -> dict[int, Earlier]:
    """The answers before each of these, by its number. One query for each link of the longest chain."""
    links = {row.pk: row.after_id for row in rows}
    found: dict[int, dict[str, str]] = {pk: {} for pk in links}
    without: set[int] = set()
    while wanted := {after for after in links.values() if after is not None}:
        columns = ("pk", "status", "variant", "text", "after_id")
        answers = {pk: rest for pk, *rest in Response.objects.filter(pk__in=wanted).values_list(*columns)}
        for pk, after in list(links.items()):
            if after is None:
                continue
            status, variant, text, links[pk] = answers[after]
            found[pk][variant] = text
            if status != Status.DONE:
                without.add(pk)
    return {pk: None if pk in without else texts for pk, texts in found.items()}


def question(protocol: Protocol, sample: ReleasedSample, seed: int, variant: str, earlier: Earlier) -> Ask | None:
    """What is asked about a sample in a variant after these answers; None where it cannot be asked."""
    ask = queries.question(protocol, sample, seed, variant)
    if not ask.after or protocol.ask_on is None:
        return ask
    return None if earlier is None else protocol.ask_on(queries.sample_value(sample), ask, earlier)


def questions_asked(protocol: Protocol, rows: Sequence[Response], seed: int) -> dict[int, Ask | None]:
    """The question of each of these responses, by its number, from their samples, which were fetched with them."""
    earlier = earlier_answers(rows)
    return {row.pk: question(protocol, row.sample, seed, row.variant, earlier[row.pk]) for row in rows}


def judged_texts(protocol: Protocol, rows: Sequence[Response]) -> dict[int, str]:
    """What is judged of each of these responses, by its number. Their samples were fetched with them."""
    if protocol.composed is None:
        return {row.pk: row.text for row in rows}
    earlier = earlier_answers(rows)
    return {
        row.pk: protocol.composed(queries.sample_value(row.sample), row.variant, row.text, earlier[row.pk] or {})
        for row in rows
    }


def joint_input(protocol: Protocol, rows: Sequence[Judgment]) -> tuple[Sample, dict[int, Rubric], Response, str]:
    """What judgments of one response are about, and the text that is judged."""
    sample, rubrics, response = queries.joint_judgment_input(rows)
    return sample, rubrics, response, judged_texts(protocol, [response])[response.pk]
