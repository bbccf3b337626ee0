"""Removing a person's names while their work, and the audit trail of it, stay."""

from allauth.account.models import EmailAddress
from allauth.socialaccount.models import SocialAccount
from allauth.usersessions.models import UserSession
from axes.models import AccessAttempt, AccessFailureLog, AccessLog
from django.contrib.admin.models import LogEntry
from django.contrib.contenttypes.models import ContentType

from review.audit.chain_entries import review_digest
from review.audit.trail import EVENTS, record_person, recording_events
from review.audit.verification import resealed_digests
from review.errors import NotAllowed
from review.models import ChainHead, Delivery, Event, PersonEvent, Review, User
from review.models.usernames import normalize_username
from review.people import accounts
from review.rules.permissions import Operator


@recording_events()
def anonymise(person_id: int, *, actor: User | Operator) -> User:
    """Close an account for good and remove who it was: names, addresses, sign-ins, second factors.

    Reviews stay, under a number. Their digests in the trail contain the name that signed them, so
    the event holds the digests of the reviews without it; a review that did not match its digest
    before gets none, and remains a fault.
    """
    user = accounts.set_active(person_id, False, actor=actor)
    if user.is_staff or user.is_superuser:
        raise NotAllowed
    accounts.remove_second_factor(person_id, actor=actor)
    # Sign-ins are logged under what was typed, which may have been the address.
    typed = {user.username, normalize_username(user.email)} - {""}
    user.username = f"anonymous-{user.pk}"
    for name in (*accounts.PERSONAL, "specialty"):
        setattr(user, name, "")
    user.languages, user.keys, user.last_login = [], {}, None
    user.set_unusable_password()
    user.save()
    for model in (SocialAccount, EmailAddress, UserSession):
        model.objects.filter(user=user).delete()
    Delivery.objects.filter(person=user).delete()
    entries = LogEntry.objects.filter(content_type=ContentType.objects.get_for_model(User), object_id=str(user.pk))
    entries.update(object_repr=user.username)
    for log in (AccessLog, AccessAttempt, AccessFailureLog):
        log.objects.filter(username__in=typed).delete()
    digests = _without_name(user)
    record_person(user, PersonEvent.Kind.ANONYMISED, actor, reviews=digests)
    return user


def _without_name(user: User) -> dict[str, str]:
    """Remove the name under the person's reviews. Returns the new digests, by primary key."""
    key = ChainHead.objects.get(pk=EVENTS).key
    events = Event.objects.filter(actor=user, kind=Event.Kind.SUBMITTED).values_list("data", flat=True)
    recorded = {data.get("review"): data.get("digest") for data in events.iterator()} | resealed_digests()
    digests = {}
    signed = Review.objects.filter(physician=user).exclude(signed_as="")
    for review in signed.select_related("case").defer("case__spec").iterator(chunk_size=500):
        is_intact = review_digest(review, key) == recorded.get(review.pk)
        review.signed_as = user.username
        if is_intact:
            digests[str(review.pk)] = review_digest(review, key)
    signed.update(signed_as=user.username)
    return digests
