"""Services that publish review forms."""

from collections.abc import Mapping

from django.utils import timezone

from review import errors
from review.audit.cases import form_digest
from review.audit.trail import EVENTS, record_person, recording_events
from review.discussion import guidelines
from review.forms import check, queries
from review.forms.design import Design, FormFault, design_from_json, design_to_json
from review.models import ChainHead, PersonEvent, ReviewForm, User
from review.rules import limits
from review.rules.permissions import Can, require
from review.rules.state_machine import State


def faults(benchmark: str, design: Design) -> list[FormFault]:
    """Everything that prevents a design from being published for a benchmark.

    Raises UnknownForm.
    """
    sample = queries.edited_sample(benchmark)
    return check.faults(design, queries.default_design(benchmark), queries.locked(benchmark), sample)


@recording_events()
def publish(
    actor: User,
    *,
    benchmark: str,
    design: Design | None,
    note: str = "",
    base: int | None = None,
    texts: Mapping[State, tuple[str, int]] | None = None,
) -> ReviewForm:
    """Publish a form for cases opened from now on; open cases keep theirs.

    A design equal to the one in force changes nothing.

    Args:
        design: None is the form in the benchmark's folder.
        base: the version that the author has seen (0: none; None: whichever is in force).
        texts: guidelines to publish with it: stage -> (text, version that the author has seen).

    Raises: NotAllowed, UnknownForm, TooLong (the note). FormFaulty: with all faults. StaleForm,
        StaleGuideline: the author has not seen the version in force; nothing was published.
    """
    require(actor, Can.OVERSEE)
    if len(note) > limits.NOTE:
        raise errors.TooLong
    queries.edited_sample(benchmark)
    if design is not None and (design_faults := faults(benchmark, design)):
        raise errors.FormFaulty(design_faults)
    # One lock for all forms and guidelines: before the first version there is no row to lock.
    ChainHead.objects.select_for_update().get(pk=EVENTS)
    current = queries.form_in_force(benchmark)
    latest = 0
    if current:
        latest = current.version
    if base is not None and base != latest:
        raise errors.StaleForm
    for stage, (text, guideline_base) in (texts or {}).items():
        guidelines.write_guideline(actor, benchmark=benchmark, stage=stage, text=text, base=guideline_base)
    stored = None
    if design is not None:
        stored = design_to_json(design)
    if current is not None and _stored_design(current) == design:
        return current
    row = ReviewForm.objects.create(
        benchmark=benchmark, version=latest + 1, design=stored, note=note, author=actor, at=timezone.now()
    )
    digest = form_digest(stored)
    record_person(
        actor, PersonEvent.Kind.FORM, actor, benchmark=benchmark, version=row.version, note=row.note, digest=digest
    )
    return row


def _stored_design(row: ReviewForm) -> Design | None:
    if row.design is None:
        return None
    return design_from_json(row.design)


def restore(actor: User, *, benchmark: str, version: int, base: int | None = None, note: str = "") -> ReviewForm:
    """Publish an earlier version again; 0 is the form in the benchmark's folder.

    Raises like `publish`.
    """
    require(actor, Can.OVERSEE)
    row = None
    if version:
        row = queries.versions(benchmark).filter(version=version).first()
    if version and row is None:
        raise errors.UnknownForm
    design = None
    if row is not None:
        design = _stored_design(row)
    return publish(actor, benchmark=benchmark, design=design, note=note, base=base)
