"""Changes calibration cases, and hands out copies of them and silent repeats."""

from collections.abc import Mapping
from datetime import timedelta
from hashlib import sha256
from typing import Any

from django.conf import settings
from django.db.models import Exists, OuterRef
from django.utils import timezone

from review.audit.trail import record, record_person, recording_events
from review.calibration.queries import items, suggested, up_front
from review.models import Assignment, CalibrationItem, Case, Event, PersonEvent, Review, User
from review.rules.case_spec import answers_to_json
from review.rules.permissions import Can, require
from review.rules.questions import Answers
from review.rules.state_machine import FINAL, Phase, Role, State

REPEAT_AFTER = timedelta(days=7)  # sooner, the case is remembered

ALONE = {
    "secondary": False,
    "inadequate_rejects": False,
    "fresh_eyes_required": False,
    "other_hospital": False,
    "calibrated_only": False,
}


@recording_events()
def make_item(case: Case, expected: Answers, *, actor: User) -> CalibrationItem:
    """A calibration item out of a closed case. Raises NotSettled for any other."""
    require(actor, Can.OVERSEE)
    suggested(case)
    item = CalibrationItem.objects.create(
        benchmark=case.benchmark,
        title=case.title[:300],
        spec=case.spec,
        expected=answers_to_json(expected),
        created_at=timezone.now(),
    )
    said = {"item": item.pk, "title": item.title, "case": case.pk, "expected": item.expected}
    record_person(actor, PersonEvent.Kind.ITEM_MADE, actor, **said)
    return item


@recording_events()
def change_item(
    item: CalibrationItem, *, actor: User, expected: Answers | None = None, active: bool | None = None
) -> None:
    """Put other answers as the known ones, or take the item out of use and back in. Scores are reckoned anew from it."""
    require(actor, Can.OVERSEE)
    before = CalibrationItem.objects.select_for_update().defer("spec").get(pk=item.pk)
    item.expected = before.expected if expected is None else answers_to_json(expected)
    item.active = before.active if active is None else active
    item.save(update_fields=["expected", "active"])
    both = {"expected": (before.expected, item.expected), "active": (before.active, item.active)}
    changed = {name: {"from": old, "to": new} for name, (old, new) in both.items() if old != new}
    if changed:
        # The trail of the admin who did it: the item is no account and no case of its own.
        said = {"item": item.pk, "title": item.title, "changed": changed}
        record_person(actor, PersonEvent.Kind.ITEM_CHANGED, actor, **said)


@recording_events()
def give_again(physician: User, *, actor: User) -> int:
    """Offer every active calibration item to a physician anew; returns how many. Ones that still wait are left alone."""
    require(actor, Can.OVERSEE)
    physician = User.objects.select_for_update(no_key=True).get(
        pk=physician.pk
    )  # one at a time, and never during a claim
    waiting = Case.objects.filter(assignments__reserved_for=physician, kind=Case.Kind.CALIBRATION).exclude(
        state__in=FINAL
    )
    new = [item for item in items(active=True).exclude(pk__in=waiting.values("item")) if _fits(physician, item.spec)]
    for item in reversed(new):
        _calibrate(physician, item)
    record_person(physician, PersonEvent.Kind.CALIBRATION, actor, items=len(new))
    return len(new)


def prepare(physician: User, *, calibrates: bool) -> bool:
    """Put the copy that is due before the physician, if any: up front, mixed in, or a repeat; whether one may be there now.

    What is drawn follows from the account and from how many answers it has given: pressing again draws nothing else. Wants the
    claim's transaction. calibrates: whether any item is active.
    """
    repeats = settings.MHB_REPEAT_SHARE > 0
    if not (calibrates or repeats):
        return False
    unfinished = Assignment.objects.filter(reserved_for=physician, hold=Assignment.Hold.OPEN).exclude(
        case__kind=Case.Kind.WORK
    )
    # A copy looks like a first review: mixed in, it would stand out for who never gets one.
    silently = not physician.stages or State.PRIMARY in physician.stages
    if unfinished.exists():
        return True
    if calibrates:
        fresh = _unanswered(physician)
        first = next((item for item in fresh if up_front(physician, item.benchmark)), None)
        if first is None and fresh and silently and _drawn(physician, "calibration", settings.MHB_CALIBRATION_SHARE):
            first = fresh[0]
        if first is not None:
            _calibrate(physician, first)
            return True
    if repeats and silently and _drawn(physician, "repeat", settings.MHB_REPEAT_SHARE):
        _repeat(physician)
    return True


def _unanswered(physician: User) -> list[CalibrationItem]:
    """Active items of which the physician had no copy, and whose sample is new to this person; the oldest first."""
    had = Case.objects.filter(item=OuterRef("pk"), assignments__reserved_for=physician)
    asked = list(items(active=True).values_list("spec__lineage", flat=True))
    own = Review.objects.filter(physician=physician, case__kind=Case.Kind.WORK, case__lineage__in=asked)
    known = set(own.values_list("case__lineage", flat=True))
    rows = items(active=True).filter(~Exists(had)).order_by("id")
    return [item for item in rows if item.spec["lineage"] not in known and _fits(physician, item.spec)]


def _fits(physician: User, spec: Mapping[str, Any]) -> bool:
    language = str(spec.get("language", "")).partition("-")[0].lower()
    specialty = str(spec.get("specialty", "")).strip().casefold()
    own = physician.asked_specialties
    return (not language or not physician.languages or language in physician.languages) and (
        not specialty or not own or specialty in own
    )


def _drawn(physician: User, what: str, share: float) -> bool:
    if share <= 0:
        return False
    given = Review.objects.filter(physician=physician).count()
    digest = sha256(f"{what}/{physician.pk}/{given}".encode()).digest()
    return int.from_bytes(digest[:8]) < share * 2**64


def _calibrate(physician: User, item: CalibrationItem) -> None:
    again = Case.objects.filter(item=item, assignments__reserved_for=physician).count()
    lineage = f"calibration:{item.pk}:{physician.pk}" + (f":{again}" if again else "")
    _copy(physician, item.spec, kind=Case.Kind.CALIBRATION, lineage=lineage, item=item)


def _repeat(physician: User) -> None:
    """A copy of an own case that closed long enough ago; one of those answered first among the ones not repeated yet."""
    old = Review.objects.filter(
        physician=physician,
        phase=Phase.COMMIT,
        retraction__isnull=True,
        repeated_as__isnull=True,
        case__kind=Case.Kind.WORK,
        case__closed_at__lt=timezone.now() - REPEAT_AFTER,
    )
    review = old.select_related("case").order_by("id").first()
    if review is not None:
        _copy(physician, review.case.spec, kind=Case.Kind.REPEAT, lineage=f"repeat:{review.pk}", repeats=review)


def _copy(physician: User, spec: dict[str, Any], *, kind: Case.Kind, lineage: str, **origin: Any) -> None:
    """A case of the physician's own. The spec keeps the sample's name and version: a copy looks like any other case."""
    now = timezone.now()
    case = Case.objects.create(
        kind=kind,
        benchmark=spec["benchmark"],
        lineage=lineage,
        version=spec["version"],
        title=spec["title"][:300],
        language=spec["language"],
        specialty=spec.get("specialty", ""),
        spec={**spec, "policy": {**spec["policy"], **ALONE}},
        simulated=spec["simulated"],
        opened_at=now,
        **origin,
    )
    Assignment.objects.create(case=case, role=Role.PRIMARY, reserved_for=physician, opened_at=now)
    record(case, Event.Kind.OPENED, None)
