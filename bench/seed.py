"""Fills a migrated, empty database: `python -m bench.seed CASES PEOPLE REVIEWED`.

Run it with the site's settings.

A few hundred different cases are opened as the site does it. The others are copies of their rows
made by the database, each with its own lineage, first assignment and event in the hash chain.
Prints the sessions and answers for `bench.browsers` as JSON.
"""

import json
import sys

import django

from bench.browsers import CSRF

SHAPES = 200  # different cases; more would only take longer
BATCH = 1_000  # events per transaction


def fill(cases: int) -> None:
    """Open `cases` cases, each with its own lineage."""
    from bench.cases import spec
    from review.cases import services as cases_services

    shapes = min(SHAPES, cases)
    for number in range(shapes):
        cases_services.open_case(spec(number))
    for start in range(shapes, cases, shapes):
        _copy_cases(start, min(shapes, cases - start))
    _assign_copies()
    _record_copies()


def _copy_cases(start: int, count: int) -> None:
    from django.db import connection

    from review.models import Case

    replaced = {"lineage": f"'copy-{start}-' || lineage", "title": f"title || ' ({start})'"}
    columns = [str(field.column) for field in Case._meta.concrete_fields if not field.primary_key]
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO review_case ({', '.join(columns)}) SELECT {', '.join(replaced.get(c, c) for c in columns)}"
            " FROM review_case WHERE lineage LIKE %s ORDER BY id LIMIT %s",
            ["bench-%", count],
        )


def _assign_copies() -> None:
    from django.db import connection

    from review.models import Assignment

    columns = [str(field.column) for field in Assignment._meta.concrete_fields if not field.primary_key]
    values = ", ".join("c.id" if column == "case_id" else f"a.{column}" for column in columns)
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO review_assignment ({', '.join(columns)}) SELECT {values} FROM review_case c, review_assignment a"
            " WHERE c.lineage LIKE %s AND a.id = (SELECT MIN(id) FROM review_assignment) ORDER BY c.id",
            ["copy-%"],
        )


def _record_copies() -> None:
    from itertools import islice

    from review.audit.trail import record, recording_events
    from review.models import Case, Event

    copies = iter(list(Case.objects.filter(lineage__startswith="copy-").only("lineage", "version").order_by("pk")))
    while batch := list(islice(copies, BATCH)):
        with recording_events():
            for case in batch:
                record(case, Event.Kind.OPENED, None)


def sign_in(username: str, role: str) -> str:
    """Sign an account in, which is created if there is none; returns its session key."""
    from importlib import import_module

    from django.conf import settings
    from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY

    from review.models import User

    user = User.objects.filter(username=username).first() or User.objects.create_user(username, role=role)
    session = import_module(settings.SESSION_ENGINE).SessionStore()
    session[SESSION_KEY] = str(user.pk)
    session[BACKEND_SESSION_KEY] = "django.contrib.auth.backends.ModelBackend"
    session[HASH_SESSION_KEY] = user.get_session_auth_hash()
    session.save()
    return str(session.session_key)


def review_first(username: str, count: int) -> None:
    """Submit first reviews, which other processes have not seen: nothing of them is in a cache."""
    from django.http import QueryDict

    from bench.cases import answers
    from review.answers.posted_answers import answers_from_post
    from review.assignments import claims, first_look, services
    from review.models import User
    from review.turns.turn import ReviewTurn

    physician, posted = User.objects.get(username=username), QueryDict(mutable=True)
    posted.update(answers())
    for _ in range(count):
        held = claims.claim_next(physician)
        if held is None or held.token is None:
            raise RuntimeError("no case is left to review")
        given = answers_from_post(held.case.frozen.form, posted)
        revealed = first_look.reveal(ReviewTurn(physician, held), held.token, given)
        services.submit(revealed, held.token, given)


def cookies(username: str, role: str) -> str:
    """The header of an account's browser, signed in."""
    from django.conf import settings

    session = sign_in(username, role)
    return f"{settings.SESSION_COOKIE_NAME}={session}; {settings.CSRF_COOKIE_NAME}={CSRF}"


def main() -> None:
    django.setup()
    from django.db import connection

    from bench.cases import answers

    cases, people, reviewed = map(int, sys.argv[1:])
    fill(cases)
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("VACUUM ANALYZE")  # what autovacuum does within a minute
    sessions = [cookies(f"physician-{number}", "physician") for number in range(people)]
    review_first(f"physician-{people - 1}", min(reviewed, cases // 2))
    print(
        json.dumps(
            {
                "sessions": sessions,
                "admin": cookies("admin", "admin"),
                "session": sign_in("admin", "admin"),
                "answers": answers(),
            }
        )
    )


if __name__ == "__main__":
    main()
