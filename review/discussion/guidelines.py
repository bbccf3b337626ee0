"""Versioned guidelines. Until an admin writes one, the text in the benchmark's folder applies."""

from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from review import errors
from review.audit.trail import EVENTS
from review.common import benchmarks
from review.models import ChainHead, Guideline, User
from review.rules import limits
from review.rules.permissions import Can, require
from review.rules.state_machine import State

STAGES = (State.PRIMARY, State.SECONDARY, State.ADJUDICATION)


def guideline(benchmark: str, stage: State) -> Guideline | None:
    """The guideline in force; None if admins have written none and the built-in text applies."""
    return Guideline.objects.filter(benchmark=benchmark, stage=stage).order_by("-version").first()


def built_in(benchmark: str, stage: State) -> str:
    """The text in the benchmark's folder for a stage, in the reader's language, or ""."""
    return benchmarks.text(benchmark, "guidelines", stage)


def guideline_versions(benchmark: str, stage: State) -> QuerySet[Guideline]:
    """All versions of a guideline, newest first."""
    return Guideline.objects.filter(benchmark=benchmark, stage=stage).select_related("author").order_by("-version")


@transaction.atomic
def write_guideline(actor: User, *, benchmark: str, stage: State, text: str, base: int | None = None) -> Guideline:
    """Write a new version; a text equal to the one in force changes nothing.

    `base` is the version that the author has seen (0: none; None: whichever is in force).

    Raises: NotAllowed, EmptyText, TooLong. StaleGuideline: another version than `base` is in force;
        nothing was written.
    """
    require(actor, Can.OVERSEE)
    if not text.strip():
        raise errors.EmptyText
    if len(text) > limits.GUIDELINE:
        raise errors.TooLong
    # One lock for all guidelines, because before the first version there is no row to lock.
    ChainHead.objects.select_for_update().get(pk=EVENTS)
    current = guideline(benchmark, stage)
    if current is not None and current.text == text:
        return current
    latest = 0
    if current is not None:
        latest = current.version
    if base is not None and base != latest:
        raise errors.StaleGuideline
    return Guideline.objects.create(
        benchmark=benchmark, stage=stage, version=latest + 1, text=text, author=actor, at=timezone.now()
    )
