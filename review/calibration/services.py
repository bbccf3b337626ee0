"""Change calibration items, and create the copies that physicians answer (calibration, repeats)."""

from collections.abc import Mapping
from datetime import timedelta
from hashlib import sha256
from typing import Any

from django.conf import settings
from django.db.models import Exists, OuterRef
from django.utils import timezone

from review.audit.trail import record, record_person, recording_events
from review.calibration.queries import items, suggested_answers, training_comes_first
from review.models import Assignment, CalibrationItem, Case, Event, PersonEvent, Review, User
from review.rules import limits
from review.rules.case_spec import answers_to_json
from review.rules.permissions import Can, require
from review.rules.questions import Answers
from review.rules.state_machine import FINAL, Phase, Role, State
from review.rules.text import one_line

REPEAT_AFTER = timedelta(days=7)  # until then the physician would remember the case

COPY_POLICY = {  # overrides: one reviewer, no requirements
    "secondary": False,
    "inadequate_rejects": False,
    "fresh_eyes_required": False,
    "other_hospital": False,
    "senior_decides": False,
    "calibrated_only": False,
}


@recording_events()
def make_item(case: Case, expected: Answers, *, actor: User) -> CalibrationItem:
    """Create a calibration item from a closed case. Raises NotSettled for any other case."""
    require(actor, Can.OVERSEE)
    suggested_answers(case)
    item = CalibrationItem.objects.create(
        benchmark=case.benchmark,
        title=case.title,
        spec=case.spec,
        expected=answers_to_json(expected),
        created_at=timezone.now(),
    )
    data = {"item": item.pk, "title": item.title, "case": case.pk, "expected": item.expected}
    record_person(actor, PersonEvent.Kind.ITEM_MADE, actor, **data)
    return item


@recording_events()
def change_item(
    item: CalibrationItem, *, actor: User, expected: Answers | None = None, active: bool | None = None
) -> None:
    """Change the expected answers of an item, or activate or deactivate it.

    Scores are computed from the current expected answers.
    """
    require(actor, Can.OVERSEE)
    before = CalibrationItem.objects.select_for_update().defer("spec").get(pk=item.pk)
    if expected is None:
        item.expected = before.expected
    else:
        item.expected = answers_to_json(expected)
    if active is None:
        item.active = before.active
    else:
        item.active = active
    item.save(update_fields=["expected", "active"])
    changed = {}
    if item.expected != before.expected:
        changed["expected"] = {"from": before.expected, "to": item.expected}
    if item.active != before.active:
        changed["active"] = {"from": before.active, "to": item.active}
    if changed:
        # Recorded for the admin's account, because the item is neither an account nor a case.
        data = {"item": item.pk, "title": item.title, "changed": changed}
        record_person(actor, PersonEvent.Kind.ITEM_CHANGED, actor, **data)


@recording_events()
def offer_again(physician: User, *, actor: User) -> int:
    """Offer every active calibration item to a physician again, except those still waiting.

    Returns: the number of items offered.
    """
    require(actor, Can.OVERSEE)
    # Lock the account, so that no other call and no claim of the physician runs at the same time.
    physician = User.objects.select_for_update(no_key=True).get(pk=physician.pk)
    waiting = Case.objects.filter(assignments__reserved_for=physician, kind=Case.Kind.CALIBRATION).exclude(
        state__in=FINAL
    )
    others = items(active=True).exclude(pk__in=waiting.values("item"))
    offered = [item for item in others if _is_suitable(physician, item.spec)]
    for item in reversed(offered):
        _calibrate(physician, item)
    record_person(physician, PersonEvent.Kind.CALIBRATION, actor, items=len(offered))
    return len(offered)


def prepare_copy(physician: User, *, with_items: bool) -> bool:
    """Create the copy that is due for the physician, if any. Needs the transaction of the claim.

    A copy is a calibration case (before work or mixed in) or a repeat. The draw depends on the
    account and on its number of reviews, so claiming again draws the same. Returns whether a copy
    waits for the physician now.

    `with_items`: whether there are active calibration items.
    """
    if settings.MHB_REPEAT_SHARE <= 0 and not with_items:
        return False
    unfinished = Assignment.objects.filter(reserved_for=physician, hold=Assignment.Hold.OPEN).exclude(
        case__kind=Case.Kind.WORK
    )
    # A copy looks like a first review, and would stand out for physicians who never get one.
    may_mix_in = not physician.stages or State.PRIMARY in physician.stages
    if unfinished.exists():
        return True
    unanswered = _unanswered_items(physician)
    first = None
    for item in unanswered:
        if training_comes_first(physician, item.benchmark):
            first = item
            break
    may_draw = first is None and unanswered and may_mix_in
    if may_draw and _is_drawn(physician, "calibration", settings.MHB_CALIBRATION_SHARE):
        first = unanswered[0]
    if first is not None:
        _calibrate(physician, first)
        return True
    return may_mix_in and _is_drawn(physician, "repeat", settings.MHB_REPEAT_SHARE) and _repeat(physician)


def _unanswered_items(physician: User) -> list[CalibrationItem]:
    """Active items without a copy for the physician and with a sample new to them, oldest first."""
    copies = Case.objects.filter(item=OuterRef("pk"), assignments__reserved_for=physician)
    lineages = list(items(active=True).values_list("spec__lineage", flat=True))
    own = Review.objects.filter(physician=physician, case__kind=Case.Kind.WORK, case__lineage__in=lineages)
    known = set(own.values_list("case__lineage", flat=True))
    rows = items(active=True).filter(~Exists(copies)).order_by("id")
    return [item for item in rows if item.spec["lineage"] not in known and _is_suitable(physician, item.spec)]


def _is_suitable(physician: User, spec: Mapping[str, Any]) -> bool:
    language = str(spec.get("language", "")).partition("-")[0].lower()
    specialty = str(spec.get("specialty", "")).strip().casefold()
    languages, specialties = physician.matching_languages, physician.matching_specialties
    reads = not language or not languages or language in languages
    return reads and (not specialty or not specialties or specialty in specialties)


def _is_drawn(physician: User, purpose: str, share: float) -> bool:
    """Draw with probability `share`, deterministically by account and number of reviews."""
    if share <= 0:
        return False
    reviews = Review.objects.filter(physician=physician).count()
    digest = sha256(f"{purpose}/{physician.pk}/{reviews}".encode()).digest()
    return int.from_bytes(digest[:8]) < share * 2**64


def _calibrate(physician: User, item: CalibrationItem) -> None:
    earlier = Case.objects.filter(item=item, assignments__reserved_for=physician).count()
    lineage = f"calibration:{item.pk}:{physician.pk}"
    if earlier:
        lineage += f":{earlier}"
    _copy(physician, item.spec, kind=Case.Kind.CALIBRATION, lineage=lineage, item=item)


def _repeat(physician: User) -> bool:
    """Copy the physician's first reviewed case that is due for repetition, if any; returns whether.

    That is one that was not repeated yet and closed more than REPEAT_AFTER ago.
    """
    candidates = Review.objects.filter(
        physician=physician,
        phase=Phase.COMMIT,
        retraction__isnull=True,
        repeated_as__isnull=True,
        case__kind=Case.Kind.WORK,
        case__closed_at__lt=timezone.now() - REPEAT_AFTER,
    )
    review = candidates.select_related("case").order_by("id").first()
    if review is None:
        return False
    _copy(physician, review.case.spec, kind=Case.Kind.REPEAT, lineage=f"repeat:{review.pk}", repeats=review)
    return True


def _copy(physician: User, spec: dict[str, Any], *, kind: Case.Kind, lineage: str, **origin: Any) -> None:
    """Create a case reserved for the physician.

    The spec keeps the sample's lineage and version, so that the copy looks like any other case.
    """
    now = timezone.now()
    case = Case.objects.create(
        kind=kind,
        benchmark=spec["benchmark"],
        lineage=lineage,
        version=spec["version"],
        title=one_line(spec["title"], limits.TITLE),
        language=spec["language"],
        specialty=spec.get("specialty", ""),
        spec={**spec, "policy": {**spec["policy"], **COPY_POLICY}},
        simulated=spec["simulated"],
        opened_at=now,
        **origin,
    )
    Assignment.objects.create(case=case, role=Role.PRIMARY, reserved_for=physician, opened_at=now)
    record(case, Event.Kind.OPENED, None)
