"""Which answers and explanations of a run hold the words that somebody searches for.

What is typed is data: it is cut into words here, and reaches the databases as parameters. Every word must be found, in the
answer or in the explanation. PostgreSQL finds whole words in any case, SQLite parts of words too; both find Chinese terms
within a clause. An index answers, but for words of one or two letters on SQLite: where only these are given, so many texts
are looked through and no more.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db import connection
from django.db.models import Model

from evaluation.models import Judgment, Response, Run
from review.models.full_text import CJK, index_name

MOST_LETTERS = 200
MOST_WORDS = 10
MOST_FOUND = 1_000  # of answers, and of explanations: what is searched for is read, not counted
TRIGRAM = 3
MOST_READ = 20_000  # texts of answers, and of explanations, that are looked through where no index helps

_RUNS = re.compile(f"[{CJK}]+")


@dataclass(frozen=True, slots=True)
class Found:
    """The answers and the judgments in which every word is. `more`: there are more than were looked for.
    `partial`: only the first `MOST_READ` texts were looked through."""

    responses: tuple[int, ...]
    judgments: tuple[int, ...]
    more: bool
    partial: bool = False


def search(run: Run, text: str) -> Found | None:
    """The rows of a run that hold every word of `text`; None where it has none."""
    words = text[:MOST_LETTERS].split()[:MOST_WORDS]
    if not words:
        return None
    responses, judgments = _rows(Response, "text", run, words), _rows(Judgment, "explanation", run, words)
    more = max(len(responses), len(judgments)) > MOST_FOUND
    partial = _without_index(words) and max(run.responses_total, run.rubrics_total) > MOST_READ
    return Found(tuple(responses[:MOST_FOUND]), tuple(judgments[:MOST_FOUND]), more, partial)


def _without_index(words: Sequence[str]) -> bool:
    return connection.vendor == "sqlite" and all(len(word) < TRIGRAM for word in words)


def _rows(model: type[Model], column: str, run: Run, words: Sequence[str]) -> list[int]:
    table = model._meta.db_table
    source, where, params = (_fts5 if connection.vendor == "sqlite" else _tsquery)(table, column, words)
    if _without_index(words):
        first = f"SELECT id, run_id, {column} FROM {table} WHERE run_id = %s LIMIT %s"  # noqa: S608 -- names of the models
        source, params = f"({first}) AS {table}", [run.pk, MOST_READ, *params]
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT id FROM {source} WHERE {where} AND run_id = %s LIMIT %s",  # noqa: S608 -- names of the models
            [*params, run.pk, MOST_FOUND + 1],
        )
        return [key for (key,) in cursor.fetchall()]


def _fts5(table: str, column: str, words: Sequence[str]) -> tuple[str, str, list[Any]]:
    """Words that have trigrams by the index, each as a quoted string; shorter ones by looking."""
    source, parts = table, []
    params: list[Any] = []
    if long := [word for word in words if len(word) >= TRIGRAM]:
        index = index_name(table, column)
        source = (
            f"{index} CROSS JOIN {table} ON id = {index}.rowid"  # CROSS: the index comes first, and ends at the limit
        )
        parts.append(f"{index} MATCH %s")
        params.append(" ".join('"{}"'.format(word.replace('"', '""')) for word in long))
    for word in words:
        if len(word) < TRIGRAM:
            parts.append(f"{table}.{column} LIKE %s ESCAPE '\\'")
            params.append("%" + re.sub(r"([%_\\])", r"\\\1", word) + "%")
    return source, " AND ".join(parts), params


def _tsquery(table: str, column: str, words: Sequence[str]) -> tuple[str, str, list[Any]]:
    """Words as PostgreSQL's parser reads them; of Chinese every pair of neighbours, or whatever begins with one character."""
    plain, alone = [], []
    for word in words:
        plain.append(_RUNS.sub(" ", word))
        for run in _RUNS.findall(word):
            plain += [run[at : at + 2] for at in range(len(run) - 1)]
            alone += [run] if len(run) == 1 else []
    query = " && ".join(["plainto_tsquery('simple', %s)", *["to_tsquery('simple', %s)"] * len(alone)])
    where = f"{column} <> '' AND mhb_words({column}) @@ ({query})"
    return table, where, [" ".join(plain), *(f"{character}:*" for character in alone)]
