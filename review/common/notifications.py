"""Telling people and programs: a message is a row, stored with what happened or not at all."""

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db.models import QuerySet
from django.utils import timezone

from review.models import Delivery, Occasion, User, Webhook
from review.rules.permissions import UserRole

KEPT = timedelta(days=30)  # of messages that were sent or given up


def tell(occasion: Occasion, people: Iterable[User | None] = (), *, once: str = "", **facts: Any) -> None:
    """Tell these people by e-mail, and the webhooks that ask for it; call it in the transaction.

    `facts` never hold text of a case, as they leave the site. `path`: the page to look at.
    `once`: what is told once, however often it is called.
    """
    rows = [Delivery(webhook=hook) for hook in Webhook.objects.filter(active=True) if occasion in hook.occasions]
    rows += [Delivery(person=person) for person in dict.fromkeys(people) if person and wants(person, occasion)]
    for row in rows:
        row.occasion, row.facts, row.once = occasion, facts, once
    Delivery.objects.bulk_create(rows, ignore_conflicts=bool(once))


def wants(person: User, occasion: Occasion) -> bool:
    """Whether an e-mail about this would be sent to this person."""
    listens = person.is_active and not person.simulated and person.email and not person.emails_paused
    return bool(settings.MHB_EMAILS and listens and occasion not in person.emails_off)


def language_of(person: User) -> str:
    """The language to write to a person in: chosen, else the first of the site's that they read."""
    if person.site_language:
        return person.site_language
    for code, _name in settings.LANGUAGES:
        if code.partition("-")[0] in person.matching_languages:
            return code
    return str(settings.LANGUAGE_CODE)


def overseers() -> QuerySet[User]:
    """The admins, who are told what concerns nobody in particular."""
    return User.objects.filter(role=UserRole.ADMIN, is_active=True)


def concerns(person: User) -> list[tuple[str, Any]]:
    """What a person of this role can be e-mailed about, each with its label."""
    theirs = {Occasion.ASSIGNED, Occasion.MENTIONED, Occasion.DISSENT, Occasion.DIGEST}
    if person.role != UserRole.PHYSICIAN:
        theirs = {*Occasion} - {Occasion.ASSIGNED, Occasion.DIGEST, Occasion.TEST}
    return [choice for choice in Occasion.choices if choice[0] in theirs]


def choose_emails(person: User, occasions: Iterable[str], *, paused: bool) -> None:
    """Store about what a person is e-mailed; `paused`: about nothing for now."""
    person.emails_off = sorted({str(name) for name, _label in concerns(person)} - {*occasions})
    person.emails_paused = paused
    person.save(update_fields=["emails_off", "emails_paused"])


def forget() -> int:
    """Delete old messages; returns how many."""
    old = Delivery.objects.exclude(status=Delivery.Status.WAITING).filter(created_at__lt=timezone.now() - KEPT)
    return int(old.delete()[0])
