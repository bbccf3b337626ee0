"""Accounts of people who sign in through a provider of identities, which may decide their role."""

import re
from dataclasses import dataclass
from hashlib import sha256
from unicodedata import combining, normalize
from unicodedata import name as character_name

from django.core.exceptions import ValidationError
from django.db.models import Q

from review.audit.trail import record_person, recording_events
from review.errors import ProviderRefused
from review.models import PersonEvent, User
from review.models.usernames import normalize_username
from review.people import accounts
from review.rules.permissions import OPERATOR, UserRole

Kind = PersonEvent.Kind
# Of ASCII letters, after the confusables of Unicode (UTS 39): what looks like what.
# Single letters first: pairs are of what they look like.
ALIKE = (("i", "l"), ("1", "l"), ("0", "o"), ("rn", "m"), ("vv", "w"), ("cl", "d"))


@dataclass(frozen=True, slots=True)
class Provided:
    """What a provider says of a person. `email` is empty unless the provider has verified it."""

    provider: str
    username: str
    name: str
    email: str
    role: UserRole | None  # that its groups give; None: none
    senior: bool | None = None  # None: groups do not decide on it


def admit(
    person: Provided, known: User | None, *, decides: bool, default: UserRole | None, link_by_email: bool
) -> User | None:
    """The account with which `person` signs in: known, linked by its address, or new.

    Its role becomes what the provider says. None if no group gives a role (any more): an account
    that it had is closed, and opened again when a group returns. Raises ProviderRefused.

    Args:
        decides: whether groups decide on roles; else existing accounts keep theirs.
        default: the role of a new account that no group gives a role.
    """
    with recording_events():
        user = known
        if user is None and link_by_email:
            user = _account_to_link(person)
        if user is None:
            return _new_account(person, person.role or default)
        user = User.objects.select_for_update(no_key=True).get(pk=user.pk)  # an admin may be changing it
        if known is None:
            if decides and person.role is None and default is None:
                return None  # none of its groups has access here: the account is not the provider's to close
            # A password would be a way in that no group closes.
            user.set_unusable_password()
            user.save(update_fields=["password"])
            record_person(user, Kind.LINKED, None, provider=person.provider, **accounts.end_access(user))
        if decides:
            role = person.role or default
        else:
            role = UserRole(user.role)
        if role is None:
            if user.is_active:
                accounts.set_active(user.pk, False, actor=OPERATOR, provider=person.provider)
            return None
        if not user.is_active:
            if not _was_closed_by(person.provider, user):
                raise ProviderRefused
            accounts.set_active(user.pk, True, actor=OPERATOR, provider=person.provider)
        if person.senior is not None:
            accounts.edit_person(user.pk, {"senior": person.senior}, actor=OPERATOR)
        return accounts.set_role(user.pk, role, actor=OPERATOR, provider=person.provider)


def _account_to_link(person: Provided) -> User | None:
    """The one account with this address, unless it has more rights than groups can give.

    Not one with which somebody signs in there already: a hospital gives an address to a new person.
    Nor by letters beyond ASCII: to a database, ı and i may be the same, as their capitals are.
    """
    if not person.email or not person.email.isascii():
        return None
    free = User.objects.exclude(socialaccount__provider=person.provider)
    found = list(free.filter(email__iexact=person.email).order_by("pk")[:2])
    if len(found) != 1 or found[0].simulated or found[0].is_staff or found[0].is_superuser:
        return None
    return found[0]


def _new_account(person: Provided, role: UserRole | None) -> User | None:
    if role is None:
        return None
    username = re.sub(r"[^\w.@+-]", "", _in_plain_letters(person.username))
    if not username:  # its letters may look like those of somebody else's name
        username = f"{person.provider}-{sha256(person.username.encode()).hexdigest()[:8]}"
    shape = _shape(username)
    if any(_shape(taken) == shape for taken in User.objects.values_list("username", flat=True).iterator()):
        username = f"{username}-{person.provider}"  # somebody else's, or it looks like it
    try:
        user = accounts.check_new(username=username, name=person.name or username, role=str(role), email=person.email)
    except ValidationError as error:
        raise ProviderRefused(" ".join(error.messages)) from None
    user.senior = bool(person.senior)
    accounts.add_person(user, None, actor=OPERATOR)
    record_person(user, Kind.LINKED, None, provider=person.provider)
    return user


def _in_plain_letters(name: str) -> str:
    """The name without accents; empty if a letter is neither of ASCII nor a Chinese character.

    The alphabets of Europe have letters that look alike: `аdmin` may begin with a Cyrillic one.
    """
    marks = (char for char in normalize("NFKD", name) if not combining(char))
    plain = "".join(marks)
    is_plain = all(char.isascii() or character_name(char, "").startswith("CJK UNIFIED") for char in plain)
    if is_plain:
        return plain
    return ""


def _shape(username: str) -> str:
    """The name as the eye may read it: equal for names that look alike, also in capitals."""
    shape = normalize_username(username)
    for letters, look in ALIKE:
        shape = shape.replace(letters, look)
    return shape


def _was_closed_by(provider: str, user: User) -> bool:
    last = PersonEvent.objects.filter(Q(kind=Kind.CLOSED) | Q(kind=Kind.OPENED), person=user).order_by("-sequence")
    data = last.values_list("data", flat=True).first()
    return data is not None and data.get("provider") == provider
