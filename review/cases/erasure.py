"""Erases what cases show and what people wrote about them; the trail of what happened stays."""

from collections.abc import Collection
from dataclasses import replace

from review.audit.chain_entries import SEALED, digest, review_digest
from review.audit.trail import EVENTS
from review.audit.verification import resealed_digests
from review.models import Case, ChainHead, Declined, Draft, Event, FirstLook, Notice, Remark, Review, RewordingOutcome
from review.models.append_only import changeable
from review.rules.blocks import Text
from review.rules.case_spec import answers_to_json, spec_to_json
from review.rules.questions import Answers

ERASED = "(erased)"
PROTECTED = (Event, Review, FirstLook, RewordingOutcome)


def erase_cases(cases: Collection[int]) -> dict[str, str]:
    """Erase the texts of cases, within `recording_events`. Returns the new digests of reviews.

    Cases, reviews and events stay as rows, with who decided what and when. A review that did not
    match its digest before gets none, and remains a fault of the trail.
    """
    with changeable(*PROTECTED):
        for case in Case.objects.filter(pk__in=cases):
            form = replace(case.frozen.form, rubrics=())
            nothing = replace(
                case.frozen, title=ERASED, blocks=(Text("", ERASED),), first_look=(), asked_for=(), form=form
            )
            Case.objects.filter(pk=case.pk).update(title=ERASED, spec=spec_to_json(nothing))
        _erase_events(cases)
        digests = _erase_reviews(cases)
        FirstLook.objects.filter(assignment__case__in=cases).update(answers=answers_to_json(Answers()))
        RewordingOutcome.objects.filter(rewording__case__in=cases).exclude(reason="").update(reason=ERASED)
    Draft.objects.filter(assignment__case__in=cases).delete()
    Declined.objects.filter(case__in=cases).update(text="")
    Notice.objects.filter(case__in=cases).update(text="")
    Remark.objects.filter(case__in=cases).update(text=ERASED, anchor=None)
    return digests


def _erase_events(cases: Collection[int]) -> None:
    """Put digests in the place of what was typed; entries of the chain have only these anyway."""
    for event in Event.objects.filter(case__in=cases):
        sealed = {}
        for name, value in event.data.items():
            if name in SEALED and isinstance(value, str) and value:
                sealed[name] = {"sha256": digest(value)}
        if sealed:
            Event.objects.filter(pk=event.pk).update(data={**event.data, **sealed})


def _erase_reviews(cases: Collection[int]) -> dict[str, str]:
    key = ChainHead.objects.get(pk=EVENTS).key
    events = Event.objects.filter(case__in=cases, kind=Event.Kind.SUBMITTED).values_list("data", flat=True)
    recorded = {data.get("review"): data.get("digest") for data in events} | resealed_digests()
    digests = {}
    for review in Review.objects.filter(case__in=cases).select_related("case"):
        is_intact = review_digest(review, key) == recorded.get(review.pk)
        review.answers = answers_to_json(Answers(verdict=review.verdict))
        Review.objects.filter(pk=review.pk).update(answers=review.answers)
        if is_intact:
            digests[str(review.pk)] = review_digest(review, key)
    return digests
