"""Full-text search in the answers and explanations of a run.

The input is split into words here and passed to the databases as parameters only. All words must
occur in the answer, or all in the explanation. PostgreSQL finds whole words in any case, SQLite
also parts of words; both find Chinese terms within a clause. Searches use an index, except for
words of one or two letters on SQLite. A search for only such words scans a limited number of texts.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from django.db import connection
from django.db.models import Model, QuerySet

from evaluation.models import Judgment, Response, Run
from generation.models import ReleasedRubric, ReleasedSample
from generation.samples.queries import visible_to
from review.models.full_text import CJK, index_name

MAX_LETTERS = 200
MAX_WORDS = 10
MAX_MATCHES = 1_000  # of answers, and of explanations: people read matches, nobody counts them
TRIGRAM = 3
MAX_SCANNED = 20_000  # texts of answers, and of explanations, if no index helps

_CJK_RUNS = re.compile(f"[{CJK}]+")


@dataclass(frozen=True, slots=True)
class SearchResult:
    """Primary keys of the responses and judgments that contain every word.

    `more`: whether there are further matches. `partial`: whether only the first `MAX_SCANNED` texts
    were searched.
    """

    responses: tuple[int, ...]
    judgments: tuple[int, ...]
    more: bool
    partial: bool = False


def search(run: Run, text: str, reader: object) -> SearchResult | None:
    """Search for every word of `text` in what `reader` may see; None if it has no words."""
    words = text[:MAX_LETTERS].split()[:MAX_WORDS]
    if not words:
        return None
    samples = visible_to(reader, ReleasedSample.objects.filter(release=run.release_id))
    rubrics = ReleasedRubric.objects.filter(sample__in=samples)
    responses = _matching_ids(Response, "text", run, words, "sample_id", samples)
    judgments = _matching_ids(Judgment, "explanation", run, words, "rubric_id", rubrics)
    more = max(len(responses), len(judgments)) > MAX_MATCHES
    partial = _without_index(words) and max(run.responses_total, run.rubrics_total) > MAX_SCANNED
    return SearchResult(tuple(responses[:MAX_MATCHES]), tuple(judgments[:MAX_MATCHES]), more, partial)


def _without_index(words: Sequence[str]) -> bool:
    return connection.vendor == "sqlite" and all(len(word) < TRIGRAM for word in words)


def _matching_ids(
    model: type[Model], column: str, run: Run, words: Sequence[str], about: str, visible: QuerySet[Any]
) -> list[int]:
    """Keys of the rows of a run with every word in `column`, whose `about` is one of `visible`."""
    table = model._meta.db_table
    if connection.vendor == "sqlite":
        source, where, params = _fts5(table, column, words)
    else:
        source, where, params = _tsquery(table, column, words)
    if _without_index(words):
        first = f"SELECT id, run_id, {about}, {column} FROM {table} WHERE run_id = %s LIMIT %s"  # noqa: S608 -- names of the models
        source, params = f"({first}) AS {table}", [run.pk, MAX_SCANNED, *params]
    keys, key_params = visible.order_by().values("pk").query.sql_with_params()
    where += f" AND run_id = %s AND {about} IN ({keys})"
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT id FROM {source} WHERE {where} LIMIT %s",  # noqa: S608 -- names of the models
            [*params, run.pk, *key_params, MAX_MATCHES + 1],
        )
        return [key for (key,) in cursor.fetchall()]


def _fts5(table: str, column: str, words: Sequence[str]) -> tuple[str, str, list[Any]]:
    """The source, condition and parameters of a search on SQLite.

    Words long enough for a trigram use the index, each as a quoted string; shorter ones use LIKE.
    """
    source, parts = table, []
    quoted: list[str] = []
    params: list[Any] = []
    for word in words:
        if len(word) >= TRIGRAM:
            quoted.append('"{}"'.format(word.replace('"', '""')))
        else:
            parts.append(f"{table}.{column} LIKE %s ESCAPE '\\'")
            params.append("%" + re.sub(r"([%_\\])", r"\\\1", word) + "%")
    if quoted:
        index = index_name(table, column)
        # CROSS JOIN makes SQLite scan the index first, and stop at the limit.
        source = f"{index} CROSS JOIN {table} ON id = {index}.rowid"
        parts.insert(0, f"{index} MATCH %s")
        params.insert(0, " ".join(quoted))
    return source, " AND ".join(parts), params


def _tsquery(table: str, column: str, words: Sequence[str]) -> tuple[str, str, list[Any]]:
    """The source, condition and parameters of a search on PostgreSQL.

    Words are parsed by PostgreSQL. Chinese text is searched by pairs of adjacent characters, a
    single character as a prefix.
    """
    plain, prefixes = [], []
    queries = ["plainto_tsquery('simple', %s)"]
    for word in words:
        plain.append(_CJK_RUNS.sub(" ", word))
        for run in _CJK_RUNS.findall(word):
            if len(run) == 1:
                queries.append("to_tsquery('simple', %s)")
                prefixes.append(f"{run}:*")
            plain += [first + second for first, second in pairwise(run)]
    where = f"{column} <> '' AND mhb_words({column}) @@ ({' && '.join(queries)})"
    return table, where, [" ".join(plain), *prefixes]
