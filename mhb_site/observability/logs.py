"""Log lines: readable on a terminal, or JSON if `MHB_LOG_JSON` is set.

No line holds a patient's text or a key. Databases quote whole rows in their errors, and parsers
what they could not parse: of a database's error only its code and the names in it are logged, and
long quotations in other errors are cut.
"""

import logging
import re
import traceback
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from django.db import Error as DatabaseError

if TYPE_CHECKING:
    from structlog.stdlib import ProcessorFormatter

MAX_MESSAGE = 500  # characters of an error's message
# Where a database begins to quote a row or a value; Celery logs messages with escaped newlines.
QUOTED_ROW = re.compile(r"(?:\n|\\n)(?:DETAIL|LINE \d|CONTEXT|QUERY): ?|(?<=: )\\?\"")
QUOTATION = re.compile(r"'[^']{40,10000}'|\"[^\"]{40,10000}\"")
MENTIONED = ("constraint_name", "table_name", "column_name")  # what PostgreSQL says beside the row


FIELDS = ("method", "route", "status", "ms", "account")  # of a line about a request


class StructuredFormatter(logging.Formatter):
    """The formatter of Django's LOGGING, which passes every log record through structlog.

    The first record imports it: most commands log nothing, and start faster without.
    """

    def __init__(self, as_json: bool) -> None:
        super().__init__()
        self.as_json = as_json
        self.formatter: ProcessorFormatter | None = None

    def format(self, record: logging.LogRecord) -> str:
        if self.formatter is None:
            self.formatter = _structlog_formatter(self.as_json)
        return self.formatter.format(record)


def _structlog_formatter(as_json: bool) -> "ProcessorFormatter":
    import structlog

    renderer: Any = structlog.dev.ConsoleRenderer(colors=False)
    extra_adders = []
    if as_json:
        renderer = structlog.processors.JSONRenderer()
        extra_adders = [structlog.stdlib.ExtraAdder(FIELDS)]
    return structlog.stdlib.ProcessorFormatter(
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        foreign_pre_chain=[
            structlog.contextvars.merge_contextvars,
            structlog.stdlib.add_log_level,
            structlog.stdlib.add_logger_name,
            *extra_adders,
            structlog.processors.TimeStamper(fmt="iso"),
            structlog.processors.ExceptionRenderer(_traceback),
        ],
    )


class WithoutTexts(logging.Filter):
    """Replaces errors among the arguments of a record by what may be logged of them."""

    def filter(self, record: logging.LogRecord) -> bool:
        if isinstance(record.args, tuple):
            args = list(record.args)
            for place, arg in enumerate(args):
                if isinstance(arg, BaseException):
                    args[place] = describe(arg)
            record.args = tuple(args)
        if isinstance(record.args, dict) and record.exc_info and record.exc_info[1]:
            record.args = {**record.args, "exc": describe(record.exc_info[1])}  # Celery's line on a task that failed
        message = record.getMessage()
        quoted = QUOTED_ROW.search(message)
        if quoted and re.search(r"violates|invalid input|value too long|DETAIL", message):
            record.msg, record.args = message[: quoted.start()] + " (values left out)", None
        return True


def describe(error: BaseException) -> str:
    """What may be logged of an error: its class and message, without rows and long quotations."""
    cause: Any = error
    if isinstance(error, DatabaseError):
        cause = error.__cause__
    if sqlstate := getattr(cause, "sqlstate", None):  # psycopg's
        mentioned = filter(None, [getattr(cause.diag, field) for field in MENTIONED])
        return f"{type(error).__name__}: SQLSTATE {' '.join([sqlstate, *mentioned])}"
    message = str(error).split("\n", 1)[0][:MAX_MESSAGE]
    shortened = QUOTATION.sub(lambda quotation: f"({len(quotation[0]) - 2} characters)", message)
    return f"{type(error).__name__}: {shortened}"


def _traceback(exc_info: Any) -> str:
    """Where an error was raised and what may be said of it, its causes first."""
    errors = reversed(list(chain(exc_info[1])))
    return "\n".join("".join(traceback.format_tb(error.__traceback__)) + describe(error) for error in errors)


def chain(error: BaseException | None) -> Iterator[BaseException]:
    """An error and what caused it, the error first."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        following = error.__cause__
        if following is None and not error.__suppress_context__:
            following = error.__context__
        error = following
