"""Roles and their rights: the only place where pages, API and commands look up who may do what."""

from enum import StrEnum
from typing import Any

from review.errors import NotAllowed


class UserRole(StrEnum):
    """One account has one role."""

    PHYSICIAN = "physician"
    ADMIN = "admin"
    RESEARCHER = "researcher"
    AUDITOR = "auditor"


class Can(StrEnum):
    """The rights that the site grants to roles."""

    REVIEW = "review"  # take cases, save drafts, submit
    OVERSEE = "oversee"  # see every case with its full history, withdraw, release leases
    PRODUCE = "produce"  # import sources, launch batches, freeze releases
    MEASURE = "measure"  # launch evaluations
    CONNECT = "connect"  # make and change endpoints
    READ_RESULTS = "read-results"  # releases, exports, runs, reports
    AUDIT = "audit"  # read whatever the rights above show, except REVIEW's; change nothing


GRANTS: dict[UserRole, frozenset[Can]] = {
    UserRole.PHYSICIAN: frozenset({Can.REVIEW}),
    UserRole.RESEARCHER: frozenset({Can.READ_RESULTS}),
    UserRole.ADMIN: frozenset({Can.OVERSEE, Can.PRODUCE, Can.MEASURE, Can.CONNECT, Can.READ_RESULTS}),
    UserRole.AUDITOR: frozenset({Can.AUDIT}),
}


class Operator:
    """A person who can run management commands, and therefore acts as an admin.

    They have full access to the database anyway. Without an account, events name nobody.
    """

    pk = None
    is_active = is_superuser = True
    role = UserRole.ADMIN


OPERATOR = Operator()


def allowed(actor: object, can: Can) -> bool:
    """Whether `actor` (a user, anonymous or not, or OPERATOR) may do `can`."""
    role: Any = getattr(actor, "role", None)
    return bool(getattr(actor, "is_active", False)) and can in GRANTS.get(role, ())


def may_read(actor: object, can: Can) -> bool:
    """Whether `actor` may read what `can` shows: an auditor does, without the right to act."""
    return allowed(actor, can) or (can is not Can.REVIEW and allowed(actor, Can.AUDIT))


def may_request(actor: object, can: Can, method: str | None) -> bool:
    """Whether `actor` may send a request by this HTTP method where `can` is needed."""
    if method in ("GET", "HEAD"):
        return may_read(actor, can)
    return allowed(actor, can)


def require(actor: object, *cans: Can, reading: bool = False) -> None:
    """Raise NotAllowed unless `actor` has at least one of the rights `cans`, or may read it."""
    has_right = allowed
    if reading:
        has_right = may_read
    if not any(has_right(actor, can) for can in cans):
        raise NotAllowed
