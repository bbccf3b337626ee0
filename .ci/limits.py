"""What docs/limits.md lists: each limit, where the code keeps it, and what happens beyond it.

Every number that a constant or a setting holds is read from there: `{0}` stands for the first name
of the row, with `bytes` or `time` as its unit.
"""

import pkgutil
from collections.abc import Iterator
from datetime import timedelta
from typing import NamedTuple

BYTES = ((2**30, "GB"), (2**20, "MB"), (2**10, "KB"), (1000, "KB"))
TIMES = ((86400, "days"), (3600, "hours"), (60, "minutes"), (1, "s"))


class Row(NamedTuple):
    """A limit: what is limited, its names in the code, its value, what happens beyond it.

    A name in backticks is a place that is not read: the value repeats its number.
    """

    what: str
    names: tuple[str, ...]
    value: str
    beyond: str = ""


class Value:
    """A number of the code, as a format string of a row shows it."""

    def __init__(self, number: object) -> None:
        if isinstance(number, timedelta):
            number = number.total_seconds()
        assert isinstance(number, (int, float)), number
        self.number = int(number)

    def __format__(self, unit: str) -> str:
        units = {"bytes": BYTES, "time": TIMES}.get(unit, ((10**6, "million"),))
        for size, name in units:
            if self.number >= size and self.number % size == 0:
                count = self.number // size
                if count == 1:
                    name = name.removesuffix("s") or name
                return f"{count:,} {name}"
        return f"{self.number:,}"


SECTIONS = {
    "Accounts, sign-in and the audit trail": (
        Row(
            "failed sign-ins in 15 minutes: a name from one address",
            ("AXES_FAILURE_LIMIT",),
            "{0}",
            "429 for 15 minutes",
        ),
        Row(
            "one address, any name; one name, any address",
            ("mhb_site.sign_in.limits.BY_ADDRESS", "mhb_site.sign_in.limits.BY_NAME"),
            "{0}; {1}",
            "429; for a name not from its own addresses",
        ),
        Row("an address is a person's own after a sign-in", ("mhb_site.sign_in.limits.KNOWN_FOR",), "{0:time}", ""),
        Row("bits of an IPv6 address that count", ("mhb_site.sign_in.limits.NETWORK",), "{0}", ""),
        Row(
            "of an address a minute: sign-ins and tokens; sign-ins begun with a passkey or provider",
            ("`ACCOUNT_RATE_LIMITS`",),
            "30; 60",
            "429",
        ),
        Row("a session without a sign-in", ("mhb_site.sign_in.session_store.UNKNOWN",), "{0:time}", "deleted"),
        Row(
            "API tokens of an account; their life",
            ("`REST_KNOX`",),
            "20; 90 days",
            "the oldest is deleted; 401, asking for more days 400",
        ),
        Row(
            "a person's sign-ins, tokens, copies of own data, undone reviews and the like in a day, of each kind",
            ("review.audit.trail.OWN_ACTS",),
            "{0}",
            "429",
        ),
        Row(
            "minutes that an invitation's page stays open",
            ("mhb_site.sign_in.first_password.MINUTES",),
            "{0}",
            "410; open the link again",
        ),
        Row(
            "a file of people: size; rows",
            ("review.people.roster.MAX_BYTES", "review.people.roster.MAX_ROWS"),
            "{0:bytes}; {1}",
            "refused",
        ),
        Row(
            "a username; a password",
            ("`User.username`", "`AUTH_PASSWORD_VALIDATORS`"),
            "150 characters; at least 10",
            "refused",
        ),
    ),
    "Physicians' work": (
        Row("cases returned or declined in an hour", ("MHB_RELEASES_PER_HOUR",), "{0}", "429; case and draft stay"),
        Row(
            "waiting for SQLite; for a PostgreSQL connection: a web process; others",
            ("`timeout`, `pool` in `mhb_site/env.py`", "mhb_site.postgresql.breaker.SECONDS"),
            "30 s; {0:time}; 20 s",
            "503, `Retry-After: 5`",
        ),
        Row(
            "an htmx request without an answer",
            ("`timeout` in `templates/base.html`",),
            "40 s",
            '"No connection"; the draft is sent again',
        ),
        Row(
            "characters of a reason; of a rubric; of a comment; of a guideline",
            (
                "review.rules.limits.TEXT",
                "review.rules.limits.CRITERION",
                "review.rules.limits.COMMENT",
                "review.rules.limits.GUIDELINE",
            ),
            "{0}; {1}; {2}; {3}",
            "422",
        ),
        Row(
            "of a source's reference; its section; the reason of a decision; a note on a form or prompt set",
            (
                "review.rules.limits.REFERENCE",
                "review.rules.limits.SECTION",
                "review.rules.limits.REMARK",
                "review.rules.limits.NOTE",
            ),
            "{0}; {1}; {2}; {3}",
            "422",
        ),
        Row(
            "sources; new rubrics; highlights in one review (in a draft twice as many)",
            ("review.rules.limits.CITATIONS", "review.rules.limits.ADDED", "review.rules.limits.HIGHLIGHTS"),
            "{0}; {1}; {2}",
            "422",
        ),
        Row("comments and reports of a person a minute", ("review.rules.limits.COMMENTS",), "{0}", "429"),
        Row("a draft kept only in the browser", ("`KEEP_DAYS` in `drafts.js`",), "30 days", "deleted"),
    ),
    "Files that are imported": (
        Row(
            "nesting of JSON",
            ("review.rules.json_nesting.MAX_DEPTH",),
            "{0}",
            "the record and what follows (JSON Lines: the line) is refused; API: 400",
        ),
        Row(
            "body of an upload; of any other request",
            ("`mhb_site/server/nginx.conf`", "mhb_site.server.bodies.MAX_BODY"),
            "1 GB; {0:bytes}",
            "413; by nginx 401, 403 or 405",
        ),
        Row(
            "long bodies (above 64 KB) of a person at once",
            ("`mhb_site/server/nginx.conf`", "mhb_site.server.bodies.OPEN_BODIES"),
            "{0}",
            "429 (nginx), 413 (embedded)",
        ),
        Row("one record", ("review.rules.text_files.MAX_RECORD",), "{0:bytes}", "it is refused"),
        Row(
            "memory of the reading process, in MB",
            ("MHB_READER_MEMORY_MB",),
            "{0}",
            "the import fails (`LimitsExceeded`, `WrongResults`); an image's row is refused",
        ),
        Row(
            "computing until the next record or image: seconds; times that in all",
            ("MHB_READER_SECONDS", "generation.common.limited.PATIENCE"),
            "{0}; {1}",
            "the same",
        ),
        Row(
            "a file: computing; entries; bytes; bytes of one",
            (
                "generation.common.limited.TOTAL_SECONDS",
                "generation.common.limited.MAX_ENTRIES",
                "generation.common.limited.MAX_OUTPUT",
                "generation.common.limited.MAX_LINE",
            ),
            "{0:time}; {1}; {2:bytes}; {3:bytes}",
            "the same",
        ),
        Row(
            "attempts at an import; refused records kept",
            ("generation.sources.services.IMPORT_TRIES", "generation.sources.services.REFUSALS_KEPT"),
            "{0}; {1}",
            "`GivenUp`; only their count",
        ),
        Row("nesting of XML", ("generation.sources.importers.mesh._MAX_DEPTH",), "{0}", "reading ends there"),
        Row(
            "a list as text in a CSV cell: MedHallu; age in PMC-Patients (characters)",
            (
                "generation.sources.importers.medhallu._MAX_LITERAL",
                "generation.sources.importers.pmc_patients._MAX_LITERAL",
            ),
            "{0}; {1}",
            "the record is refused",
        ),
        Row(
            "an image: file; copy without metadata; pixels; longer side",
            (
                "generation.images.checks.MAX_BYTES",
                "generation.images.checks.MAX_STORED",
                "generation.images.checks.MAX_PIXELS",
                "generation.images.checks.MAX_SIDE",
            ),
            "{0:bytes}; {1:bytes}; {2}; {3}",
            "the row is refused",
        ),
        Row(
            "scans of a JPEG; times its pixels; chunks of a PNG; computing",
            (
                "generation.images.checks.MAX_SCANS",
                "generation.images.checks.MAX_WORK",
                "generation.images.checks.MAX_CHUNKS",
                "generation.images.checks.SECONDS",
            ),
            "{0}; {1}; {2}; {3:time}",
            "the same",
        ),
        Row("images of a row", ("generation.sources.importers.visual_questions.MAX_IMAGES",), "{0}", "the same"),
        Row(
            "an archive: files; of rows; bytes unpacked; times its packed size",
            (
                "generation.sources.importers.bundles.MAX_FILES",
                "generation.sources.importers.bundles.MAX_DATA_FILES",
                "generation.sources.importers.bundles.MAX_UNPACKED",
                "generation.sources.importers.bundles.MAX_RATIO",
            ),
            "{0}; {1}; {2:bytes}; {3}",
            "the import fails",
        ),
        Row(
            "a pickle: bytes; instructions; characters; whole numbers",
            (
                "generation.sources.importers.pickles.MAX_PICKLE",
                "generation.sources.importers.pickles.MAX_VALUES",
                "generation.sources.importers.pickles.MAX_TEXT",
                "generation.sources.importers.pickles._BITS",
            ),
            "{0:bytes}; {1}; {2}; {3} bits",
            "the same",
        ),
        Row(
            "logs of Inspect: JSON; `.eval`: samples, bytes, one sample",
            (
                "evaluation.interchange.files.MAX_LOG",
                "evaluation.interchange.files.MAX_SAMPLES",
                "evaluation.interchange.files.MAX_UNPACKED",
                "evaluation.interchange.tool_logs.MAX_MEMBER",
            ),
            "{0:bytes}; {1}, {2:bytes}, {3:bytes}",
            "the same",
        ),
        Row(
            "criteria of an answer in a log",
            ("evaluation.interchange.tool_logs.MAX_CRITERIA",),
            "{0}",
            "the answer is refused",
        ),
        Row("an upload without an import", ("generation.sources.uploads.ORPHAN_AGE",), "{0:time}", "removed"),
    ),
    "Requests, keys and addresses of endpoints": (
        Row(
            "variables of keys; hosts of endpoints",
            ("`MHB_ENDPOINT_KEYS`", "`MHB_ENDPOINT_HOSTS`"),
            "`MHB_KEY_...`; [most](operations.md#endpoints)",
            "refused at saving; a job pauses as `NotAllowed`",
        ),
        Row(
            "characters of a key in a file",
            ("generation.llm.http.access.MAX_KEY_CHARS",),
            "{0}",
            "the rest is not read",
        ),
        Row(
            "characters of an address; body of a visitor",
            ("mhb_site.web.requests.MAX_URL_LENGTH", "mhb_site.server.bodies.MAX_UNKNOWN_BODY"),
            "{0}; {1:bytes}",
            "414; 413",
        ),
        Row("a body that is no file", ("DATA_UPLOAD_MAX_MEMORY_SIZE",), "{0:bytes}", "413 (API), 400 (pages)"),
        Row(
            "entries of a list or mapping; characters of a name there; values in JSON",
            ("review.rules.limits.ENTRIES", "review.rules.limits.NAME", "review.rules.limits.JSON_VALUES"),
            "{0}; {1}; {2}",
            "400",
        ),
        Row("faults that the API names", ("review.rules.limits.PROBLEMS",), "{0}", "`more` counts the others"),
        Row(
            "a search in answers: letters; words",
            ("evaluation.answers.search.MAX_LETTERS", "evaluation.answers.search.MAX_WORDS"),
            "{0}; {1}",
            "400 (API), not read (pages)",
        ),
        Row(
            "matches; texts searched for one or two letters (SQLite)",
            ("evaluation.answers.search.MAX_MATCHES", "evaluation.answers.search.MAX_SCANNED"),
            "{0}; {1}",
            "the page says so",
        ),
        Row(
            "searched characters of a text (PostgreSQL)",
            ("review.models.full_text.MAX_CHARACTERS",),
            "{0}",
            "the rest is not found",
        ),
        Row(
            "rows on a page of a list; at most",
            ("review.common.api.NewestFirst.page_size", "review.common.api.NewestFirst.max_page_size"),
            "{0}; {1}",
            "that many are returned",
        ),
    ),
    "What endpoints answer": (
        Row(
            "a completion, unpacked; a line of a provider's results",
            ("MHB_MAX_REPLY_BYTES",),
            "{0:bytes} (64 KB to 32 MB)",
            "`BrokenReply`: asked once more, then the row fails; a result line: asked live",
        ),
        Row(
            "a completion with a token limit: bytes; more for a token",
            ("generation.llm.request_body.MIN_REPLY_LIMIT", "generation.llm.request_body.TOKEN_BYTES"),
            "{0:bytes}; {1}; at most the above",
            "the same",
        ),
        Row(
            "embeddings: bytes; more for a text; in all",
            (
                "generation.llm.request_body.MIN_REPLY_LIMIT",
                "generation.llm.request_body.VECTOR_BYTES",
                "generation.llm.request_body.MAX_VECTORS",
            ),
            "{0:bytes}; {1:bytes}; {2:bytes}",
            "`BrokenReply`",
        ),
        Row(
            "a provider's description of files and batches",
            ("generation.llm.http.transport.MAX_BODY",),
            "{0:bytes}",
            "`BrokenReply`: the run pauses",
        ),
        Row(
            "a result file, packed and unpacked; seconds of reading it",
            ("generation.llm.batch_protocol.MAX_RESULTS", "generation.llm.batch_protocol.TRANSFER_SECONDS"),
            "{0:bytes}; {1}",
            "the rest is asked live, or tried again",
        ),
        Row(
            "a provider batch: bytes; lines; age",
            (
                "generation.engine.provider_batch_filling.MAX_BYTES",
                "generation.engine.provider_batches.MAX_LINES",
                "generation.engine.provider_batches.MAX_AGE",
            ),
            "{0:bytes}; {1}; {2:time}",
            "a new batch begins; `BatchLost`",
        ),
        Row(
            "attempts at a row or provider batch that never finish",
            ("generation.engine.task_queue.MAX_TRIES",),
            "{0}",
            "`GivenUp`: the row fails; the run pauses",
        ),
        Row("attempts at a request", ("`Gateway(attempts=...)`",), "5", "the row fails with the last error"),
        Row(
            "failures of an endpoint in a row; growing pauses",
            ("generation.llm.admission_control.BREAK_AFTER", "generation.llm.admission_control.MAX_OPENINGS"),
            "{0}; {1}",
            "`EndpointDown`: the job pauses",
        ),
        Row("characters of an error's detail", ("generation.llm.errors.MAX_DETAIL",), "{0}", "cut"),
        Row(
            "JSON in a reply, or an answer that code reads: characters; depth",
            ("generation.llm.parsing.MAX_CHARS", "generation.llm.parsing.MAX_DEPTH"),
            "{0}; {1}",
            "`BrokenReply`; of JSON, after one repair",
        ),
        Row(
            "reading an answer: processor time; in all",
            ("generation.engine.apart.SECONDS", "generation.engine.apart.WAIT_SECONDS"),
            "{0:time}; {1:time}",
            "the row fails as `TooSlow`",
        ),
        Row(
            "computing without a break: a row; a barrier; many rows; times that in all, or waiting for no model",
            (
                "generation.models.work.Work.seconds_allowed",
                "generation.models.barriers.BarrierRound.seconds_allowed",
                "generation.models.jobs.Job.seconds_allowed",
                "generation.engine.watchdog.PATIENCE",
            ),
            "{0:time}; {1:time}; {2:time} of processor time; {3}",
            "the worker ends, the row fails or the job pauses as `TooSlow`; what waits fails",
        ),
        Row("an image in a message", ("generation.llm.types.MAX_IMAGE",), "{0:bytes}", "refused"),
        Row("Retry-After", ("generation.llm.http.failures.MAX_RETRY_AFTER",), "{0:time}", "taken as that"),
        Row(
            "tokens reported for a call",
            ("generation.llm.reply_reading.MAX_TOKENS",),
            "{0}",
            "not counted; the ledger says so",
        ),
    ),
    "Processes and the network": (
        Row("a silent client", ("`mhb_site/server/nginx.conf`", "`manage.py serve`"), "20 s; 75 s", "disconnected"),
        Row(
            "connections of the embedded site",
            ("mhb_site.management.commands.serve.CONNECTIONS",),
            "{0}",
            "new ones wait",
        ),
        Row(
            "request line and headers",
            ("`mhb_site/server/nginx.conf`", "`manage.py serve`"),
            "64 KB",
            "400, 414 or 431",
        ),
        Row(
            "requests that a web process handles at once",
            ("`threads` (`gunicorn.conf.py`; `manage.py serve`)",),
            "8; 4",
            "further ones wait",
        ),
    ),
}


def value_of(name: str) -> Value:
    """The number of a setting (`MHB_...`, or one of Django's) or of a constant (dotted)."""
    from django.conf import settings

    from mhb_site.env import Env

    if name.startswith("MHB_"):
        return Value(Env.model_fields[name.removeprefix("MHB_").lower()].default)
    if "." not in name:
        return Value(getattr(settings, name))
    return Value(pkgutil.resolve_name(name))


def place(names: tuple[str, ...]) -> str:
    """The names of a row; one in the module of the name before it has no module."""
    shown = []
    module = ""
    for name in names:
        if "`" in name:
            shown.append(name)
            continue
        own_module, _, constant = name.rpartition(".")
        if own_module and own_module == module:
            name = constant
        module = own_module
        shown.append(f"`{name}`")
    return ", ".join(shown)


def limit_lines() -> Iterator[str]:
    """Docs/limits.md after its head."""
    for title, rows in SECTIONS.items():
        yield f"## {title}\n"
        yield "| limit | default | variable or constant | beyond it |\n|---|---|---|---|"
        for row in rows:
            values = [value_of(name) for name in row.names if "`" not in name]
            value = row.value.format(*values)
            yield f"| {row.what} | {value} | {place(row.names)} | {row.beyond} |"
        yield ""
