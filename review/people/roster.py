"""People listed in a CSV file, one a row: read, checked and refused with reasons before anything is stored."""

import csv
import io
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _

from review.models import User
from review.models.people import split_list
from review.models.usernames import normal
from review.rules.permissions import UserRole
from review.rules.text import is_storable

COLUMNS = ("name", "role", "specialties", "languages", "institution", "hospital", "email", "username")
COLUMN_OF = {"first_name": "name", "last_name": "name", "specialty": "specialties"}
MOST_BYTES = 1024 * 1024
MOST_ROWS = 1000


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a row cannot be an account. The header is row 1; row 0 is the file as a whole."""

    file: str
    row: int
    reason: str

    def __str__(self) -> str:
        place = _("%(file)s, row %(row)s") % {"file": self.file, "row": self.row} if self.row else self.file
        return f"{place}: {self.reason}"


@dataclass(frozen=True, slots=True)
class RosterRow:
    """The account that a row asks for, not stored."""

    row: int
    user: User


@dataclass(frozen=True, slots=True)
class Roster:
    """What a file asks for. With a refusal nothing of it is stored."""

    file: str
    entries: list[RosterRow]
    refusals: list[Refusal]


class _Refused(Exception):
    """A row, or the whole file, cannot be read. The argument is the reason, for people."""


def new_account(**said: str) -> User:
    """The account that somebody asks for, by the names in COLUMNS; not stored. Raises ValidationError."""
    name = " ".join(said["name"].split())
    first, _space, last = name.rpartition(" ")
    user = User(
        username=normal(said.get("username", "").strip() or _username_of(name)),
        first_name=first,
        last_name=last if first else "",
        role=(said.get("role", "").strip() or UserRole.PHYSICIAN).lower(),
        specialty=", ".join(split_list(said.get("specialties", ""))),
        languages=[code.lower() for code in split_list(said.get("languages", ""))],
        institution=said.get("institution", "").strip(),
        hospital=said.get("hospital", "").strip(),
        email=said.get("email", "").strip().lower(),
    )
    user.set_unusable_password()
    wrong: dict[str, list[str]] = {}
    if not name:
        wrong["name"] = [_("A name is missing.")]
    if user.role not in list(UserRole):
        roles = ", ".join(UserRole)
        wrong["role"] = [_("“%(role)s” is not a role. Roles: %(roles)s.") % {"role": user.role, "roles": roles}]
    if codes := [code for code in user.languages if not is_language_code(code)]:
        wrong["languages"] = [_("Not a language code: %(code)s") % {"code": ", ".join(codes)}]
    try:
        user.clean_fields(exclude=[*wrong, *(["username"] if not name else [])])
    except ValidationError as error:
        for field, messages in error.message_dict.items():
            wrong[COLUMN_OF.get(field, field)] = messages
    if wrong:
        raise ValidationError(wrong)
    return user


def _username_of(name: str) -> str:
    """The account name that a person's name gives, without what account names cannot hold (O'Brien: obrien)."""
    return ".".join(part for word in name.split() if (part := re.sub(r"[^\w.@+-]", "", word)))


def check_new(**said: str) -> User:
    """The same, where name and e-mail address are nobody else's."""
    user = new_account(**said)
    if taken := [reason for _row, reason in _taken([RosterRow(1, user)])]:
        raise ValidationError({"name": taken})
    return user


def is_language_code(code: str) -> bool:
    """Whether it looks like a code of ISO 639."""
    return code.isascii() and code.isalpha() and 2 <= len(code) <= 3


def read_roster(file: str, data: bytes) -> Roster:
    """Everybody that a CSV file lists, and every reason why a row is refused. Nothing is stored."""
    entries: list[RosterRow] = []
    refusals: list[Refusal] = []
    try:
        for row, said in _rows(data):
            try:
                entries.append(RosterRow(row, new_account(**_named(said))))
            except ValidationError as error:
                refusals += [Refusal(file, row, f"{name}: {' '.join(of)}") for name, of in error.message_dict.items()]
            except _Refused as error:
                refusals.append(Refusal(file, row, str(error)))
    except _Refused as error:
        refusals.append(Refusal(file, 0, str(error)))
    except csv.Error as error:
        refusals.append(Refusal(file, 0, _("This is not CSV: %(reason)s.") % {"reason": error}))
    refusals += [Refusal(file, row, reason) for row, reason in _taken(entries)]
    if not entries and not refusals:
        refusals.append(Refusal(file, 0, _("The file lists nobody.")))
    return Roster(file, entries, sorted(refusals, key=lambda refusal: refusal.row))


def _rows(data: bytes) -> Iterator[tuple[int, tuple[list[str], list[str]]]]:
    """The number of each row that is not empty, and (header, cells)."""
    if len(data) > MOST_BYTES:
        raise _Refused(_("The file is larger than 1 MB."))
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise _Refused(_("The file is not UTF-8. Save it as “CSV UTF-8”.")) from None
    if not is_storable(text):
        raise _Refused(_("The file contains a NUL character."))
    first = text.partition("\n")[0]
    lines = csv.reader(
        io.StringIO(text, newline=""), delimiter=";" if ";" in first and "," not in first else ",", strict=True
    )
    header = [cell.strip().lower() for cell in next(lines, [])]
    if "name" not in header:
        raise _Refused(_("The first row must name the columns, among them “name”. Columns: %s.") % ", ".join(COLUMNS))
    if unknown := [cell for cell in header if cell not in COLUMNS]:
        told = {"unknown": ", ".join(unknown), "columns": ", ".join(COLUMNS)}
        raise _Refused(_("Unknown column: %(unknown)s. Columns: %(columns)s.") % told)
    if len(set(header)) < len(header):
        raise _Refused(_("A column is named twice."))
    for number, cells in enumerate(lines, start=2):
        if number > MOST_ROWS + 1:
            raise _Refused(_("The file has more than %s rows.") % MOST_ROWS)
        if any(cell.strip() for cell in cells):
            yield number, (header, cells)


def _named(said: tuple[list[str], list[str]]) -> dict[str, str]:
    header, cells = said
    if len(cells) != len(header):
        told = {"cells": len(cells), "columns": len(header)}
        raise _Refused(_("The row has %(cells)s cells and the header has %(columns)s.") % told)
    return dict(zip(header, cells, strict=True))


def _taken(entries: list[RosterRow]) -> Iterator[tuple[int, str]]:
    """Rows whose account name or e-mail address belongs to an account, or to a row above."""
    names, mails = (
        [entry.user.username for entry in entries],
        [entry.user.email for entry in entries if entry.user.email],
    )
    there = set(User.objects.filter(username__in=names).values_list("username", flat=True))
    known = set(User.objects.filter(email__in=mails).values_list("email", flat=True))
    above: dict[str, int] = {}
    for entry in entries:
        name, mail = entry.user.username, entry.user.email
        if name in there:
            yield entry.row, _("The account “%s” exists. Give another name in the column “username”.") % name
        elif name in above:
            told = {"name": name, "row": above[name]}
            yield entry.row, _("Row %(row)s has the account name “%(name)s”, too. Use the column “username”.") % told
        if mail in known:
            yield entry.row, _("An account has the e-mail address %s.") % mail
        elif mail and mail in above:
            yield entry.row, _("Row %(row)s has the e-mail address %(mail)s, too.") % {"mail": mail, "row": above[mail]}
        above |= {name: entry.row, **({mail: entry.row} if mail else {})}


def report(roster: Roster, made: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """What an import did, or without `made` (account name -> what is told of its invitation) what it would do, for programs."""
    people = [
        {
            "row": entry.row,
            "username": entry.user.username,
            "name": str(entry.user),
            "role": entry.user.role,
            "specialties": entry.user.specialties,
            **{name: getattr(entry.user, name) for name in ("languages", "institution", "hospital", "email")},
            **made.get(entry.user.username, {}),
        }
        for entry in roster.entries
    ]
    refusals = [asdict(refusal) for refusal in roster.refusals]
    return {"file": roster.file, "added": len(made), "people": people, "refusals": refusals}
