"""Reads and checks CSV files with one person per row; nothing is stored here."""

import csv
import hashlib
import io
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, NotRequired, TypedDict

from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _

from review.common.language_names import language_code
from review.errors import sentences
from review.models import User
from review.models.people import split_list
from review.models.usernames import normalize_username
from review.rules.permissions import UserRole
from review.rules.text import is_storable, plain_name
from review.rules.text_files import SPREADSHEET_ERRORS, CSVTable, TwiceNamed, decoded, is_total, yes_or_no

COLUMNS = ("name", "role", "specialties", "languages", "institution", "hospital", "email", "username", "senior")
# Other names of columns, as exports of other programs have them.
COLUMN_NAMES = {
    "e-mail": "email", "mail": "email", "e-mail address": "email", "email address": "email", "full name": "name",
    "specialty": "specialties", "speciality": "specialties", "language": "languages", "user name": "username",
}  # fmt: skip
TITLES = frozenset({"dr", "prof", "professor", "med", "univ", "pd", "priv", "doz", "mr", "mrs", "ms", "md", "phd"})
NOT_AVAILABLE = "#N/A"  # a spreadsheet's missing value
COLUMN_OF_FIELD = {"first_name": "name", "last_name": "name", "specialty": "specialties"}
MAX_BYTES = 1024 * 1024
MAX_ROWS = 1000


@dataclass(frozen=True, slots=True)
class RosterRefusal:
    """Why a row was refused. The header is row 1; row 0 stands for the whole file."""

    file: str
    row: int
    reason: str

    def __str__(self) -> str:
        if self.row:
            place = _("%(file)s, row %(row)s") % {"file": self.file, "row": self.row}
        else:
            place = self.file
        return f"{place}: {self.reason}"


@dataclass(frozen=True, slots=True)
class RosterRow:
    """The unsaved account of a row."""

    row: int
    user: User


class ImportedPerson(TypedDict):
    """The account of one row.

    `link`: of the invitation; absent in a dry run, empty if it was e-mailed.
    """

    row: int
    username: str
    name: str
    role: str
    specialties: list[str]
    languages: list[str]
    institution: str
    hospital: str
    email: str
    senior: bool
    link: NotRequired[str]
    emailed: NotRequired[bool]


@dataclass(frozen=True, slots=True)
class Roster:
    """The content of a file. If there are any refusals, no account may be created."""

    file: str
    entries: list[RosterRow]
    refusals: list[RosterRefusal]


def new_account(**values: str) -> User:
    """An unsaved account from values by the names in COLUMNS. Raises ValidationError."""
    name = plain_name(values["name"])
    first, _space, last = name.rpartition(" ")
    if not first:  # one word, as Chinese names are written
        first, last = last, ""
    languages = map(language_code, split_list(values.get("languages", "")))
    user = User(
        username=normalize_username(values.get("username", "").strip() or _default_username(name)),
        first_name=first,
        last_name=last,
        role=(values.get("role", "").strip() or UserRole.PHYSICIAN).lower(),
        specialty=", ".join(split_list(values.get("specialties", ""))),
        languages=list(dict.fromkeys(languages)),
        institution=plain_name(values.get("institution", "")),
        hospital=plain_name(values.get("hospital", "")),
        email=values.get("email", "").strip().lower(),
    )
    user.set_unusable_password()
    errors: dict[str, list[str]] = {}
    try:
        user.senior = bool(yes_or_no(values.get("senior", "")))
    except ValueError:
        errors["senior"] = [_("“%s” is neither yes nor no.") % values["senior"]]
    if not name:
        errors["name"] = [_("A name is missing.")]
    elif name.replace(".", "").isdecimal():  # as a date is a number where a cell has lost its format
        errors["name"] = [_("“%s” is not a name.") % name]
    if user.role not in list(UserRole):
        roles = ", ".join(UserRole)
        errors["role"] = [_("“%(role)s” is not a role. Roles: %(roles)s.") % {"role": user.role, "roles": roles}]
    if codes := [code for code in user.languages if not is_language_code(code)]:
        errors["languages"] = [_("Not a language code: %(code)s") % {"code": ", ".join(codes)}]
    checked_already = [*errors]
    if "name" in errors:
        checked_already.append("username")
    try:
        user.clean_fields(exclude=checked_already)
    except ValidationError as error:
        for field, messages in error.message_dict.items():
            errors[COLUMN_OF_FIELD.get(field, field)] = messages
    if errors:
        raise ValidationError(errors)
    return user


def _default_username(name: str) -> str:
    """The username derived from a name, without titles and without what usernames cannot contain.

    The same one each time, also if no character is left: the preview must show what will be made.
    """
    words = [re.sub(r"[^\w.@+-]", "", word) for word in normalize_username(name).split()]
    words = [word for word in words if word.replace(".", "").replace("-", "") not in TITLES] or words
    return ".".join(filter(None, words))[:150] or f"person-{hashlib.sha256(name.encode()).hexdigest()[:6]}"


def is_language_code(code: str) -> bool:
    """Whether this has the form of an ISO 639 code."""
    return code.isascii() and code.isalpha() and 2 <= len(code) <= 3


def read_roster(file: str, data: bytes) -> Roster:
    """Read a CSV file: its accounts, unsaved, and all reasons to refuse rows."""
    entries: list[RosterRow] = []
    refusals: list[RosterRefusal] = []
    try:
        for row, header, cells in _read_rows(data):
            try:
                entries.append(RosterRow(row, new_account(**_row_values(header, cells))))
            except ValidationError as error:
                refusals += [RosterRefusal(file, row, reason) for reason in sentences(error)]
    except ValidationError as error:
        refusals.append(RosterRefusal(file, 0, *sentences(error)))
    refusals += [RosterRefusal(file, row, reason) for row, reason in conflicts(entries)]
    if not entries and not refusals:
        refusals.append(RosterRefusal(file, 0, _("The file contains no people.")))
    return Roster(file, entries, sorted(refusals, key=lambda refusal: refusal.row))


def _read_rows(data: bytes) -> Iterator[tuple[int, list[str], list[str] | csv.Error]]:
    """(line, header, cells or the error) of each non-empty row."""
    if len(data) > MAX_BYTES:
        raise ValidationError(_("The file is larger than 1 MB."))
    not_text = ValidationError(_("The file is not UTF-8. Save it as “CSV UTF-8”."))
    if data.startswith(b"PK"):  # a zip archive, as spreadsheets are
        raise not_text
    try:
        text = decoded(data)
    except UnicodeDecodeError:
        raise not_text from None
    if not is_storable(text):
        raise ValidationError(_("The file contains a NUL character."))
    try:
        table = CSVTable(io.StringIO(text))
    except csv.Error as error:
        raise _not_csv(error) from None
    except TwiceNamed:
        raise ValidationError(_("A column is named twice.")) from None
    header = [COLUMN_NAMES.get(cell.lower(), cell.lower()) for cell in table.header]
    if "name" not in header:
        reason = _("The first row must name the columns, including “name”. Columns: %s.") % ", ".join(COLUMNS)
        found = ""
        if header:
            found = _("Found: %s.") % ", ".join(header)
        raise ValidationError(f"{reason} {found}".strip())
    if unknown := [cell or "“”" for cell in header if cell not in COLUMNS]:
        names = {"unknown": ", ".join(unknown), "columns": ", ".join(COLUMNS)}
        raise ValidationError(_("Unknown column: %(unknown)s. Columns: %(columns)s.") % names)
    if len(set(header)) < len(header):
        raise ValidationError(_("A column is named twice."))
    for count, (row, cells) in enumerate(table.rows(), start=1):
        if count > MAX_ROWS:
            raise ValidationError(_("The file has more than %s rows.") % MAX_ROWS)
        yield row, header, cells


def _not_csv(error: csv.Error) -> ValidationError:
    return ValidationError(_("This is not CSV: %(reason)s.") % {"reason": error})


def _row_values(header: list[str], cells: list[str] | csv.Error) -> dict[str, str]:
    if isinstance(cells, csv.Error):
        raise _not_csv(cells)
    if len(cells) != len(header):
        counts = {"cells": len(cells), "columns": len(header)}
        raise ValidationError(_("The row has %(cells)s cells and the header has %(columns)s.") % counts)
    if is_total(cells):
        raise ValidationError(_("This is a line of totals, not a person."))
    values = dict(zip(header, cells, strict=True))
    for column, cell in values.items():
        if cell in SPREADSHEET_ERRORS:
            raise ValidationError(_("“%s” is an error of a spreadsheet.") % cell)
        if cell == NOT_AVAILABLE:
            values[column] = ""
    return values


def conflicts(entries: list[RosterRow]) -> Iterator[tuple[int, str]]:
    """Rows whose username or e-mail address is already used by an account or an earlier row."""
    usernames = [entry.user.username for entry in entries]
    emails = [entry.user.email for entry in entries if entry.user.email]
    used_names = set(User.objects.filter(username__in=usernames).values_list("username", flat=True))
    used_emails = set(User.objects.filter(email__in=emails).values_list("email", flat=True))
    earlier: dict[str, int] = {}
    for entry in entries:
        name, email = entry.user.username, entry.user.email
        if name in used_names:
            yield entry.row, _("The username “%s” is already taken. Enter another one in the column “username”.") % name
        elif name in earlier:
            values = {"name": name, "row": earlier[name]}
            sentence = _("Row %(row)s also has the username “%(name)s”. Enter another one in the column “username”.")
            yield entry.row, sentence % values
        if email in used_emails:
            yield entry.row, _("Another account already uses the e-mail address %s.") % email
        elif email and email in earlier:
            values = {"mail": email, "row": earlier[email]}
            yield entry.row, _("Row %(row)s also has the e-mail address %(mail)s.") % values
        earlier[name] = entry.row
        if email:
            earlier[email] = entry.row


def _imported(entry: RosterRow, invitation: Mapping[str, Any]) -> ImportedPerson:
    user = entry.user
    person: ImportedPerson = {
        "row": entry.row,
        "username": user.username,
        "name": str(user),
        "role": user.role,
        "specialties": user.specialties,
        "languages": user.languages,
        "institution": user.institution,
        "hospital": user.hospital,
        "email": user.email,
        "senior": user.senior,
    }
    if invitation:
        person["link"] = invitation["link"]
        person["emailed"] = invitation["emailed"]
    return person


def import_report(roster: Roster, invitations: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The result of an import as JSON-serializable data; of a dry run if `invitations` is empty.

    invitations: username -> data of the invitation (`invitations.invitations_as_json`).
    """
    people = [_imported(entry, invitations.get(entry.user.username, {})) for entry in roster.entries]
    refusals = [asdict(refusal) for refusal in roster.refusals]
    return {"file": roster.file, "added": len(invitations), "people": people, "refusals": refusals}
