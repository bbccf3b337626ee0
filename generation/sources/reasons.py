"""What readers of files say of a record, in the language of the person who looks at it.

A reason is stored as the English sentence that the reader wrote, as readers know neither Django nor
languages. It is recognised here by the template that it is made from.
"""

import re
from functools import cache

from django.utils.translation import gettext
from django.utils.translation import gettext_noop as _

# The specific before the general. What stands for `reason` and `where` is translated, too.
TEMPLATES = (
    # places
    _("%(where)s and everything after it"),
    _("line %(number)s"),
    _("record %(number)s"),
    _("row %(number)s"),
    # fields
    _("'%(field)s' is missing."),
    _("'%(field)s' is blank."),
    _("'%(field)s' has no text."),
    _("'%(field)s' is empty."),
    _("'%(field)s' is not a text."),
    _("'%(field)s' is not a list of texts."),
    _("'%(field)s' is not a list of turns."),
    _("'%(field)s' is not a list of options."),
    _("'%(field)s' is not a list."),
    _("'%(field)s' is not an object."),
    _("'%(field)s' is not JSON."),
    _("'%(field)s' is not a JSON object."),
    _("'%(field)s' is neither a text nor a whole number."),
    _("'%(field)s' is neither true nor false."),
    _("'%(field)s' is not a language code, such as 'en' or 'zh'."),
    _("'%(field)s' is neither a list of turns nor lines that begin with 'Patient:' or 'Doctor:'."),
    _("'%(field)s' has more than %(number)s characters."),
    _("'%(field)s' is longer than %(number)s characters."),
    _("'%(field)s' has more than %(number)s entries."),
    _("'%(field)s' is not one of %(values)s."),
    _("'%(field)s' is not a number from %(first)s to %(last)s."),
    _("'%(field)s' does not hold an image."),
    _("'%(field)s' is or contains %(value)s, which is not a number."),
    _("'%(field)s' is neither %(one)s nor %(other)s."),
    _("A text in it contains a NUL character."),
    _("A text in it contains bytes that are not UTF-8 text."),
    _("A number in it is out of range."),
    _("A cell of the row cannot be read."),
    # ids, options and turns
    _("Its id is rounded (1.23E+05): give the column the format 'text' and export the table again."),
    _("Its id is longer than 200 characters or contains a space or control character."),
    _("The answer is none of the options: neither the letter nor the text of one."),
    _("It does not have 2 to %(number)s options."),
    _("The name of an option is not a letter."),
    _("An option has no text."),
    _("An option is blank."),
    _("The patient says nothing in %(field)s."),
    _("The conversation does not end with the user."),
    _("The role of turn %(number)s is neither a patient (user) nor a doctor (assistant)."),
    _("%(where)s has no text."),
    _("%(where)s is not an object."),
    _("Turn %(number)s"),
    _("Rubric %(number)s"),
    _("Message %(number)s"),
    _("Tested scenario %(number)s"),
    _("Marked place %(number)s"),
    _("It has no context."),
    _("It has no image."),
    # records
    _("The header has %(expected)s columns, this record has %(number)s."),
    _("This is not CSV: %(reason)s."),
    _("The line is longer than %(number)s bytes."),
    _("The record is longer than %(number)s bytes."),
    _("The line is not UTF-8 (byte %(number)s)."),
    _("The line is not JSON: %(reason)s (character %(number)s)."),
    _("The line is not JSON that can be read: a number is out of range."),
    _("The line is not a JSON object."),
    _("The record is not a JSON object."),
    _("The row is not a JSON object."),
    _("It has more than %(number)s parts."),
    _("The file is damaged here; what follows cannot be read."),
    _("The array breaks off here: %(reason)s."),
    _("The object breaks off here: %(reason)s."),
    _("the file ends before it does"),
    _("what follows is not JSON"),
    # images
    _("Image %(name)s"),
    _("The file is missing."),
    _("The file is empty."),
    _("The file is larger than %(number)s bytes."),
    _("It is missing."),
    _("It cannot be decoded: the file is cut off or broken."),
    _("It is not a JPEG, PNG, WebP, GIF or BMP image."),
    _("It is a DICOM file, which may name its patient: export it as PNG or JPEG first."),
    # files
    _("The file is not in this format. %(reason)s"),
    _("It has no column %(columns)s. Recognised: %(found)s."),
    _("It has no column %(columns)s."),
    _("It has two columns '%(column)s'."),
    _("It is a zip archive (unpack it first) or a spreadsheet (save it as CSV first)."),
    _("It is a spreadsheet or document of Excel or Word: save it as CSV first."),
    _("It is a PDF document."),
    _("It is empty."),
    _("It is a web page or XML."),
    _("It is not text: save it as UTF-8."),
    _("It is a JSON object of records: save it as an array of them, or one on each line."),
    _("It is not a table: nothing separates columns, and it is not JSON."),
    _("It is not a Parquet file that can be read: it is damaged or not complete."),
    # records that are known
    _("It differs from the record with its id in: %(fields)s. It is now revision %(number)s."),
    _("It differs from the record with its id in: %(fields)s. That one stays, unless you import with 'update'."),
)
_PLACEHOLDER = re.compile(r"%\((\w+)\)s")
_NESTED = frozenset({"reason", "where"})
_SHORT = frozenset({"number", "expected", "name"})  # not a sentence


def translated(reason: str) -> str:
    """A reason or a place in the active language; unchanged if nothing is known of it."""
    for template, parts in _templates():
        if (values := _values(parts, reason)) is not None:
            nested = {name: translated(text) if name in _NESTED else text for name, text in values.items()}
            return gettext(template) % nested if values else gettext(template)
    head, colon, rest = reason.partition(": ")
    return f"{translated(head)}{colon}{translated(rest)}" if colon else reason


@cache
def _templates() -> list[tuple[str, list[str]]]:
    return [(template, _PLACEHOLDER.split(template)) for template in TEMPLATES]


def _values(parts: list[str], text: str) -> dict[str, str] | None:
    """What stands for the placeholders of a template in a text; None if the text is not of it.

    parts: a literal, then names and literals in turn.
    """
    if len(parts) == 1:
        return {} if text == parts[0] else None
    if not text.startswith(parts[0]) or not text.endswith(parts[-1]):
        return None
    values: dict[str, str] = {}
    at, end = len(parts[0]), len(text) - len(parts[-1])
    for name, literal in zip(parts[1:-2:2], parts[2:-1:2], strict=True):
        place = text.find(literal, at, end)
        if place < 0:
            return None
        values[name], at = text[at:place], place + len(literal)
    values[parts[-2]] = text[at:end]
    fits = at <= end and all(values.values()) and not any(": " in values.get(name, "") for name in _SHORT)
    return values if fits else None
