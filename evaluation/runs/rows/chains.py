"""Chains: questions that contain earlier answers, and the texts that are judged of their answers.

A waiting question is a queued row whose `after` is the row of the answer that it waits for; no one
takes it before that row has ended. So a kill between two links loses nothing, and retrying a failed
answer holds back the questions after it.
"""

from collections.abc import Iterable, Mapping, Sequence

from django.db.models import Q

from evaluation.models import Response
from evaluation.protocol import Ask, Protocol
from evaluation.runs import queries
from generation.models import Endpoint
from generation.models.work import Work

Status = Work.Status
ENDED = (Status.DONE, Status.FAILED, Status.DROPPED)
# Responses that wait for nothing.
READY = Q(after__isnull=True) | Q(after__status__in=ENDED)
# Failed responses that a retry cannot mend: they would follow the same unusable answer.
HOPELESS = Q(outcome=Response.Outcome.UNASKED, after__status=Status.DONE)
# Variant -> text of the earlier answers; None if one of them has no text.
EarlierAnswers = Mapping[str, str] | None


def earlier_answers(rows: Iterable[Response]) -> dict[int, EarlierAnswers]:
    """The earlier answers of each response, by its id: one query per link of the longest chain."""
    links = {row.pk: row.after_id for row in rows}
    texts_by_response: dict[int, dict[str, str]] = {pk: {} for pk in links}
    incomplete: set[int] = set()
    while sought := {after for after in links.values() if after is not None}:
        columns = ("pk", "status", "variant", "text", "after_id")
        answers = {}
        for pk, *answer in Response.objects.filter(pk__in=sought).values_list(*columns):
            answers[pk] = answer
        for pk, after in list(links.items()):
            if after is None:
                continue
            status, variant, text, links[pk] = answers[after]
            texts_by_response[pk][variant] = text
            if status != Status.DONE:
                incomplete.add(pk)
    earlier: dict[int, EarlierAnswers] = dict(texts_by_response)
    for pk in incomplete:
        earlier[pk] = None
    return earlier


def question(protocol: Protocol, row: Response, seed: int, model: str, earlier: EarlierAnswers) -> Ask | None:
    """The question of a response, given its earlier answers; None if it cannot be asked."""
    ask = queries.question(protocol, row.sample, seed, row.variant, model)
    if not ask.after or protocol.ask_on is None:
        return ask
    if earlier is None:
        return None
    return protocol.ask_on(queries.sample_value(row.sample), ask, earlier)


def chained_questions(protocol: Protocol, rows: Sequence[Response], seed: int) -> dict[int, Ask | None]:
    """The question of each response, by its id. `rows` need their samples loaded."""
    earlier = earlier_answers(rows)
    models: dict[int, str] = {}
    if protocol.ask_model is not None:
        endpoints = {row.endpoint_id for row in rows}
        models = dict(Endpoint.objects.filter(pk__in=endpoints).values_list("pk", "model"))
    questions = {}
    for row in rows:
        model = models.get(row.endpoint_id, "")
        questions[row.pk] = question(protocol, row, seed, model, earlier[row.pk])
    return questions


def judged_texts(protocol: Protocol, rows: Sequence[Response]) -> dict[int, str]:
    """The text of each response that is judged, by its id. `rows` need their samples loaded."""
    if protocol.composed is None:
        return {row.pk: row.text for row in rows}
    earlier = earlier_answers(rows)
    texts = {}
    for row in rows:
        sample = queries.sample_value(row.sample)
        texts[row.pk] = protocol.composed(sample, row.variant, row.text, earlier[row.pk] or {})
    return texts
