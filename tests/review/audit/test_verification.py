"""The trail is a hash chain: verification finds rows changed in the database, and names them."""

import hashlib
import hmac
import json
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.db import DatabaseError, IntegrityError, connection, transaction
from django.test import Client
from django.urls import reverse

from review import errors
from review.assignments import claims
from review.audit import chain_entries, exports, publishing, trail, verification
from review.audit.verification import FaultCode
from review.cases import services
from review.discussion import remarks
from review.forms import services as forms_services
from review.models import Audit, Case, ChainHead, Event, PersonEvent, Review, User
from review.rules.permissions import UserRole
from review.rules.state_machine import Policy
from tests.conftest import RunConcurrently, accounts_of
from tests.memory import peak_memory
from tests.populations import population
from tests.profile import by_profile
from tests.review.audit.tampering import sql, unprotected
from tests.review.factories import (
    account,
    approval,
    case_in_adjudication,
    case_in_secondary,
    claim_and_submit,
    open_case,
    rejection,
    submit,
)

pytestmark = [pytest.mark.django_db, pytest.mark.both]


@population
def events() -> list[Event]:
    """Events, in chain order, of three cases: adjudicated, with one review, and just opened."""
    ana, bo, chen, dina = accounts_of("ana", "bo", "chen", "dina")
    case_in_adjudication(ana, bo)
    claim_and_submit(chen, approval())
    claim_and_submit(dina, approval())
    case_in_secondary(ana, number=2)
    open_case(3)
    return list(Event.objects.order_by("sequence"))


def faults(**options: Any) -> list[tuple[FaultCode, int, int]]:
    return [(fault.what, fault.sequence, fault.until) for fault in verification.check(Audit(), **options)]


# ---------------------------------------------------------------------------------------- the chain


def test_each_event_contains_the_hash_of_the_one_before(events: list[Event]) -> None:
    previous, numbers = chain_entries.GENESIS, dict.fromkeys((event.case_id for event in events), 0)
    assert len(events) > 15
    for place, event in enumerate(events, 1):
        numbers[event.case_id] += 1
        assert (event.sequence, event.previous, event.number) == (place, previous, numbers[event.case_id])
        previous = event.hash
    assert [event.pk for event in events] == sorted(event.pk for event in events)
    head = ChainHead.objects.get(pk=trail.EVENTS)
    assert (head.sequence, head.hash) == (len(events), previous)
    assert faults() == []


def test_the_hash_can_be_recomputed_from_the_documentation(ana: User) -> None:
    """Recompute the hash without product code, from the stored key."""
    case = case_in_secondary(ana)
    head = ChainHead.objects.get(pk=trail.EVENTS)
    event = Event.objects.get(kind=Event.Kind.SUBMITTED)
    who = hmac.new(bytes.fromhex(head.key), f'["{case.lineage}",{ana.pk}]'.encode(), hashlib.sha256).hexdigest()[:32]
    entry = {
        "actor": who,
        "at": event.at.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "data": event.data,
        "kind": "submitted",
        "number": event.number,
        "previous": event.previous,
        "sample": "invented-000001",
        "sequence": event.sequence,
        "version": 1,
    }
    text = json.dumps(entry, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    assert hashlib.sha256(text.encode()).hexdigest() == event.hash
    assert str(ana.pk) not in json.dumps(entry["data"]["role"])
    assert len(event.data["digest"]) == 64


def test_published_entries_contain_no_person_and_no_typed_text() -> None:
    def entry(**data: Any) -> Any:
        case, noon = Case(lineage="s-1", version=1), datetime(2026, 3, 1, 12, tzinfo=UTC)
        return chain_entries.entry(Event(case=case, kind=Event.Kind.DECLINED, at=noon, data=data), "ab" * 32)["data"]

    data = entry(reason="My brother is in it. 我", taken_from=7, role="primary")
    assert data["role"] == "primary"
    assert data["reason"] == {"sha256": chain_entries.digest("My brother is in it. 我")}
    assert (
        data["taken_from"]
        == chain_entries.pseudonym("ab" * 32, "s-1", 7)
        != chain_entries.pseudonym("ab" * 32, "s-2", 7)
    )
    assert entry(taken_from=8)["taken_from"] != data["taken_from"]
    assert entry(reason="") == {"reason": ""}
    assert chain_entries.digest("\ud800")  # JSON can contain lone surrogates


def test_a_published_line_is_the_canonical_form_of_the_hashed_entry(events: list[Event], ana: User, bo: User) -> None:
    case = events[0].case
    with trail.recording_events():
        trail.record(case, Event.Kind.DECLINED, ana, reason='She is "mine"\n我', taken_from=bo.pk, hours=1.5)
    key = verification.pseudonym_key()
    expected: dict[str, list[str]] = {}
    for event in Event.objects.select_related("case").order_by("sequence"):
        line = chain_entries.canonical({**chain_entries.entry(event, key), "hash": event.hash})
        expected.setdefault(event.case.lineage, []).append(line.decode() + "\n")
    last = verification.last_sequence()
    assert publishing.trails([*expected, "nobody"], key=key, upto=last) == {**expected, "nobody": []}
    assert publishing.trails([case.lineage], key=key, upto=last - 1) == {case.lineage: expected[case.lineage][:-1]}


@trail.recording_events()
def fails_after_recording(case: Case, actor: User) -> None:
    trail.record(case, Event.Kind.PROBLEM, actor)
    raise ZeroDivisionError


def test_events_of_a_rolled_back_transaction_are_not_recorded(ana: User) -> None:
    case = open_case()
    before = Event.objects.count()
    with trail.recording_events():
        trail.record(case, Event.Kind.REMARKED, ana)
        with pytest.raises(ZeroDivisionError):
            fails_after_recording(case, ana)
        with trail.recording_events():
            trail.record(case, Event.Kind.DECLINED, ana)
        assert Event.objects.count() == before, "events are written when the outermost block ends"
    kinds = list(Event.objects.order_by("sequence").values_list("kind", flat=True))[before:]
    assert kinds == [Event.Kind.REMARKED, Event.Kind.DECLINED]
    with pytest.raises(ZeroDivisionError):
        fails_after_recording(case, ana)
    assert Event.objects.count() == before + 2
    with pytest.raises(RuntimeError, match="recorded"):
        trail.record(case, Event.Kind.PROBLEM, ana)
    assert faults() == []


def test_accounts_have_a_chain_too(adela: User, ana: User) -> None:
    with trail.recording_events():
        for kind in (PersonEvent.Kind.PAUSED, PersonEvent.Kind.RESUMED, PersonEvent.Kind.EDITED):
            trail.record_person(ana, kind, adela)
    assert faults() == []
    with unprotected("review_personevent"):
        sql("UPDATE review_personevent SET actor_id = %s WHERE sequence = 4", ana.pk)
    [fault] = verification.check(Audit())
    assert (fault.what, fault.chain, fault.sequence) == (FaultCode.ALTERED, "personevent", 4)


# ---------------------------------------------------------------------------------------- tampering


def swap(a: int, b: int, columns: tuple[str, ...]) -> None:
    """Swap columns of the events at two places in the chain."""
    rows = {
        place: sql(f"SELECT id, {', '.join(columns)} FROM review_event WHERE sequence = %s", place)[0]
        for place in (a, b)
    }
    (id_a, *of_a), (id_b, *of_b) = rows[a], rows[b]
    spare = {"sequence": 10**6, "id": 10**6, "number": 10**6}
    aside = ", ".join(f"{column} = {spare[column]}" for column in columns if column in spare)
    sets = ", ".join(f"{column} = %s" for column in columns)
    sql(f"UPDATE review_event SET {aside} WHERE id = %s", id_a)
    sql(f"UPDATE review_event SET {sets} WHERE id = %s", *of_a, id_b)
    moved = 10**6 if "id" in columns else id_a
    sql(f"UPDATE review_event SET {sets} WHERE id = %s", *of_b, moved)


def forge(template: Event, **fields: Any) -> None:
    """Insert a copy of an event without any service, with a hash that matches its content."""
    values = {
        name: getattr(template, name)
        for name in ("sequence", "previous", "case", "number", "kind", "actor", "at", "data")
    }
    values |= fields
    key = ChainHead.objects.get(pk=trail.EVENTS).key
    row = Event(**values)
    row.hash = chain_entries.digest(chain_entries.entry(row, key))
    row.save(force_insert=True)


def update(column: str, value: Any) -> Callable[[list[Event]], Any]:
    return lambda events: sql(f"UPDATE review_event SET {column} = %s WHERE sequence = 7", value)


def delete(*places: int) -> Callable[[list[Event]], Any]:
    return lambda events: [sql("DELETE FROM review_event WHERE sequence = %s", place) for place in places]


def insert_at_the_end(events: list[Event]) -> None:
    last = events[-1]
    forge(last, sequence=last.sequence + 1, previous=last.hash, number=last.number + 1)


def replace_by_a_forgery(events: list[Event]) -> None:
    delete(7)(events)
    forge(events[6], kind=Event.Kind.PROBLEM)


def insert_before_the_first(events: list[Event]) -> None:
    forge(events[0], sequence=0, number=99)


def cut_off(how_many: int) -> Callable[[list[Event]], Any]:
    return lambda events: sql("DELETE FROM review_event WHERE sequence > %s", len(events) - how_many)


def move_the_end(events: list[Event]) -> None:
    sql("UPDATE review_chainhead SET sequence = sequence - 1 WHERE name = 'event'")


def rewrite_everything(events: list[Event]) -> None:
    """Rewrite the whole chain with one event changed, which only an anchor reveals."""
    sql("DELETE FROM review_event")
    previous = chain_entries.GENESIS
    for event in events:
        kind = Event.Kind.PROBLEM if event.sequence == 7 else event.kind
        forge(event, previous=previous, kind=kind)
        previous = Event.objects.get(sequence=event.sequence).hash
    sql("UPDATE review_chainhead SET hash = %s WHERE name = 'event'", previous)


MANIPULATIONS: dict[str, tuple[Callable[[list[Event]], Any], list[tuple[FaultCode, int, int]]]] = {
    "kind": (update("kind", "opened"), [(FaultCode.ALTERED, 7, 7)]),
    "actor": (update("actor_id", None), [(FaultCode.ALTERED, 7, 7)]),
    "time": (update("at", "2026-01-01 00:00:00.000001+00:00"), [(FaultCode.ALTERED, 7, 7)]),
    "data": (update("data", '{"role": "primary", "phase": "confirm"}'), [(FaultCode.ALTERED, 7, 7)]),
    "hash": (update("hash", "f" * 64), [(FaultCode.ALTERED, 7, 7)]),
    "previous": (update("previous", "f" * 64), [(FaultCode.ALTERED, 7, 7)]),
    "number": (update("number", 999), [(FaultCode.ALTERED, 7, 7)]),
    "one deleted": (delete(7), [(FaultCode.MISSING, 7, 7)]),
    "some deleted": (delete(1, 7, 8, 9), [(FaultCode.MISSING, 1, 1), (FaultCode.MISSING, 7, 9)]),
    "neighbours swapped": (lambda events: swap(7, 8, ("sequence",)), [(FaultCode.MOVED, 7, 7), (FaultCode.MOVED, 8, 8)]),
    "distant ones swapped": (lambda events: swap(3, 9, ("sequence",)), [(FaultCode.MOVED, 3, 3), (FaultCode.MOVED, 9, 9)]),
    "ids swapped": (lambda events: swap(7, 8, ("id",)), [(FaultCode.EXCHANGED, 8, 8)]),
    "added at the end": (insert_at_the_end, [(FaultCode.INSERTED, -1, -1)]),
    "added at the start": (insert_before_the_first, [(FaultCode.INSERTED, 0, 0)]),
    "replaced": (replace_by_a_forgery, [(FaultCode.REPLACED, 7, 7)]),
    "the last cut off": (cut_off(1), [(FaultCode.CUT_OFF, -1, -1)]),
    "the last three cut off": (cut_off(3), [(FaultCode.CUT_OFF, -3, -1)]),
    "the end moved": (move_the_end, [(FaultCode.NO_END, -1, -1), (FaultCode.INSERTED, -1, -1)]),
    "rewritten": (rewrite_everything, []),
}  # fmt: skip


@pytest.mark.parametrize("manipulation", MANIPULATIONS)
def test_tampering_is_found_and_named(manipulation: str, events: list[Event]) -> None:
    tamper, expected = MANIPULATIONS[manipulation]
    with unprotected("review_event", "review_chainhead"):
        tamper(events)
    end = {"added at the end": len(events) + 2, "the end moved": len(events)}.get(manipulation, len(events) + 1)
    chain_faults = [fault for fault in faults() if not fault[0].startswith(("review-", "case-"))]
    if manipulation == "the end moved":
        assert chain_faults == [(FaultCode.NO_END, end - 1, end - 1), (FaultCode.INSERTED, end, end)]
        return
    placed = [(what, *(place if place >= 0 else end + place for place in span)) for what, *span in expected]
    assert chain_faults == placed


NOT_DATA = [
    "[]",
    '"anchor"',
    '["anchor"]',
    "7",
    "null",
    "{}",
    '{"review": 1e999}',
    '{"review": "x"}',
    '{"reviews": 5, "after": 5, "version": [], "case": "x"}',
    '{"benchmark": "x", "version": 1e999, "digest": ""}',
]


@pytest.mark.parametrize("data", NOT_DATA)
def test_an_event_that_no_site_writes_ends_no_check(data: str, events: list[Event], adela: User, ana: User) -> None:
    """Whatever stands in the place of its data, the event is named, and so is what comes after."""
    with trail.recording_events():
        for kind in PersonEvent.Kind:
            trail.record_person(ana, kind, adela, reviews={}, what="frozen", name="r@1")
    altered = {}
    for model in (Event, PersonEvent):
        table = model._meta.db_table
        rows = model._default_manager.order_by("sequence").in_bulk(field_name="sequence")
        last_of_kind = {row.kind: row.sequence for row in rows.values() if row.data != json.loads(data)}
        altered[table] = sorted(last_of_kind.values())
        with unprotected(table):
            for sequence in altered[table]:
                sql(f"UPDATE {table} SET data = %s WHERE sequence = %s", data, sequence)
    found = [(fault.chain, fault.sequence) for fault in verification.check(Audit()) if fault.what == FaultCode.ALTERED]
    for model in (Event, PersonEvent):
        places = [place for chain, place in found if chain == model._meta.model_name]
        assert places == altered[model._meta.db_table]
    client = Client()
    client.force_login(adela)
    assert verification.run(verification.create_check(None).pk).faults_count >= len(found)
    assert client.get(reverse("api:audit")).status_code == 200
    for name in ("audit", "audit-site"):
        for query in ("", "?format=csv"):
            answer = client.get(reverse(f"review:{name}") + query)
            assert (answer.status_code, bool(b"".join(answer))) == (200, True)


def test_an_anchor_reveals_a_rewritten_chain(events: list[Event]) -> None:
    anchors = {"event": {event.sequence: event.hash for event in (events[5], events[-1])}}
    assert faults(anchors=anchors) == []
    with unprotected("review_event", "review_chainhead"):
        rewrite_everything(events)
    assert not [fault for fault in faults() if not fault[0].startswith(("review-", "case-"))]
    chain_faults = [fault for fault in faults(anchors=anchors) if not fault[0].startswith(("review-", "case-"))]
    assert chain_faults == [(FaultCode.OTHER_ANCHOR, len(events), len(events))]
    assert (FaultCode.CUT_OFF, 10**6, 10**6) in faults(anchors={"event": {10**6: "0" * 64}})


def test_an_anchor_reveals_the_cut_end_of_the_chain_of_accounts(
    events: list[Event], capsys: pytest.CaptureFixture[str]
) -> None:
    """With the head set back as well, such as to hide an export, nothing else shows it."""
    call_command("verify_audit")
    [end] = [line for line in capsys.readouterr().out.splitlines() if "chain of accounts" in line]
    anchor = end.split()[-1]
    assert anchor == f"accounts:{verification.end_of('personevent')}"
    last = PersonEvent.objects.latest("sequence")
    with unprotected("review_personevent", "review_chainhead"):
        sql("DELETE FROM review_personevent WHERE id = %s", last.pk)
        head = "UPDATE review_chainhead SET sequence = %s, hash = %s WHERE name = 'personevent'"
        sql(head, last.sequence - 1, last.previous)
    found = faults(anchors={"personevent": {last.sequence: last.hash}})
    assert (FaultCode.CUT_OFF, last.sequence, last.sequence) in found
    with pytest.raises(SystemExit):
        call_command("verify_audit", "--anchor", anchor)
    assert f"personevent {last.sequence}: cut off" in capsys.readouterr().out


def cut_end(table: str, sequence: int) -> None:
    """Delete the events of a chain from `sequence` on, and set its head back."""
    [(previous,)] = sql(f"SELECT previous FROM review_{table} WHERE sequence = %s", sequence)
    sql(f"DELETE FROM review_{table} WHERE sequence >= %s", sequence)
    head = "UPDATE review_chainhead SET sequence = %s, hash = %s WHERE name = %s"
    sql(head, sequence - 1, previous, table)


def recorded_end(event: Event | PersonEvent, chain: str) -> int:
    """The position of the end of the other chain that an event recorded."""
    name, sequence, hash_ = event.data["anchor"].split(":")
    model = Event if chain == "cases" else PersonEvent
    assert (name, hash_) == (chain, model.objects.get(sequence=sequence).hash)
    return int(sequence)


def test_the_cut_end_of_the_chain_of_accounts_is_seen_from_the_cases(
    events: list[Event], adela: User, ana: User, tmp_path: Path
) -> None:
    (tmp_path / "SHA256SUMS").write_text("0" * 64 + "  data.csv\n")
    exports.anchor(tmp_path, "release own 1.0.0")
    place = PersonEvent.objects.latest("sequence").sequence
    opening = Event.objects.get(case=open_case(4), kind=Event.Kind.OPENED)
    assert recorded_end(opening, "accounts") == place
    assert faults() == []
    with unprotected("review_personevent", "review_chainhead"):
        cut_end("personevent", place)
    assert faults() == [(FaultCode.OTHER_CHAIN, place, place)]
    with trail.recording_events():  # another event in the place of the export hides nothing
        trail.record_person(ana, PersonEvent.Kind.EDITED, adela)
    [fault] = verification.check(Audit())
    assert (fault.what, fault.chain, fault.detail) == (FaultCode.OTHER_CHAIN, "personevent", opening.sequence)
    assert str(fault).startswith(f"personevent {place}: cut off or rewritten: event {opening.sequence} of the other")


@pytest.mark.parametrize("kind", trail.CHECKPOINTS[trail.PERSON_EVENTS])
def test_the_cut_end_of_the_chain_of_cases_is_seen_from_the_accounts(
    events: list[Event], adela: User, kind: PersonEvent.Kind
) -> None:
    with trail.recording_events():
        trail.record_person(None, kind, adela, what="own")
    checkpoint = PersonEvent.objects.latest("sequence")
    place = recorded_end(checkpoint, "cases")
    assert place == len(events)
    assert faults() == []
    with unprotected("review_event", "review_chainhead"):
        cut_end("event", place)
    chain_faults = [fault for fault in faults() if not fault[0].startswith(("review-", "case-"))]
    assert chain_faults == [(FaultCode.OTHER_CHAIN, place, place)]


def test_a_look_that_records_the_other_end_is_still_one_event_an_hour(events: list[Event], adela: User) -> None:
    for _ in range(2):
        trail.record_look(PersonEvent.Kind.EXPORTED, adela, what="tool: all")
    [look] = PersonEvent.objects.filter(kind=PersonEvent.Kind.EXPORTED)
    assert recorded_end(look, "cases") == len(events)


def test_of_two_looks_at_once_one_is_recorded(adela: User, run_concurrently: RunConcurrently) -> None:
    run_concurrently([lambda: trail.record_look(PersonEvent.Kind.EXPORTED, adela, what="tool: all")] * 4)
    assert PersonEvent.objects.filter(kind=PersonEvent.Kind.EXPORTED).count() == 1


def test_the_page_shows_both_ends_and_looks_them_up(events: list[Event], adela: User, client: Any) -> None:
    client.force_login(adela)
    address = reverse("review:audit")
    for end in (f"cases:{len(events)}:{events[-1].hash}", f"accounts:{verification.end_of('personevent')}"):
        answer = client.get(address, {"anchor": end}).content.decode()
        assert f"{end}\n" in answer
        assert "The chain still contains this event." in answer
        altered = client.get(address, {"anchor": f"{end[:-64]}{'0' * 64}"}).content.decode()
        assert "no longer contains this event" in altered
    for nonsense in ("accounts:1", "people:1:" + "0" * 64, "9" * 30 + ":" + "0" * 64):
        assert "Not a valid anchor" in client.get(address, {"anchor": nonsense}).content.decode()


def test_a_case_with_a_changed_lineage_is_found(events: list[Event]) -> None:
    case = events[0].case_id
    Case.objects.filter(pk=case).update(lineage="another")
    assert {place for what, place, _ in faults() if what is FaultCode.ALTERED} == {
        event.sequence for event in events if event.case_id == case
    }


@pytest.mark.parametrize(
    ("column", "value"),
    [("verdict", "other"), ("answers", "{}"), ("signed_as", "Somebody Else"), ("meaning", "adjudication")],
)
def test_an_altered_review_is_found(events: list[Event], column: str, value: str) -> None:
    review = Review.objects.order_by("pk")[2]
    if column == "verdict":
        value = "approve" if review.verdict == "reject" else "reject"
    with unprotected("review_review"):
        sql(f"UPDATE review_review SET {column} = %s WHERE id = %s", value, review.pk)
    [fault] = verification.check(Audit())
    assert (fault.what, fault.detail, fault.case) == (FaultCode.REVIEW_ALTERED, review.pk, review.case_id)
    assert str(review.pk) in str(fault)


@pytest.mark.parametrize(
    ("code", "statement", "tables"),
    [
        ("case-state", "UPDATE review_case SET state = 'secondary' WHERE id = {open}", ()),
        ("case-state", "UPDATE review_case SET ground = 'consensus' WHERE id = {open}", ()),
        ("case-settings", "UPDATE review_case SET priority = 9 WHERE id = {open}", ()),
        ("case-remark", "DELETE FROM review_remark", ("review_remark",)),
        ("case-remark", "INSERT INTO review_remark (case_id, author_id, text, at) SELECT id, {author}, 'x', opened_at"
         " FROM review_case WHERE id = {open}", ()),
        ("case-unrecorded", "INSERT INTO review_case (kind, benchmark, lineage, version, title, language, specialty, spec,"
         " fresh_eyes_required, simulated, priority, state, ground, opened_at) SELECT kind, benchmark, 'new', 1, title,"
         " language, specialty, spec, fresh_eyes_required, simulated, 0, 'primary', '', opened_at FROM review_case"
         " WHERE id = {open}", ()),
    ],
)  # fmt: skip
def test_a_case_or_a_row_of_it_that_differs_from_its_events_is_named(
    events: list[Event], adela: User, code: str, statement: str, tables: tuple[str, ...]
) -> None:
    case = Case.objects.latest("pk")
    services.prioritise(case.pk, actor=adela, priority=2)
    remarks.remark(adela, case.pk, "Is this right?")
    assert faults() == []
    with unprotected(*tables):
        sql(statement.format(open=case.pk, author=adela.pk))
    [fault] = verification.check(Audit())
    assert fault.what == code
    assert str(fault).startswith(f"case {fault.case}: ")
    if code != "case-unrecorded":
        assert fault.case == case.pk


def test_a_review_form_that_differs_from_its_event_is_named(adela: User) -> None:
    forms_services.publish(adela, benchmark="mhb", design=None)
    assert faults() == []
    with unprotected("review_reviewform"):
        sql("UPDATE review_reviewform SET design = %s", '{"questions": []}')
    [fault] = verification.check(Audit())
    assert (fault.what, fault.name, fault.detail) == (FaultCode.FORM, "mhb", 1)
    assert str(fault).startswith("mhb: version 1 ")


def test_a_review_without_an_event_and_an_event_without_a_review_are_found(events: list[Event], emil: User) -> None:
    review = Review.objects.latest("pk")
    Review.objects.create(
        **{name: getattr(review, name) for name in ("case", "assignment", "role", "verdict", "inadequate", "submitted_at")},
        physician=emil, answers={}, phase="discuss",
    )  # fmt: skip
    [fault] = verification.check(Audit())
    assert (fault.what, fault.case) == (FaultCode.REVIEW_UNRECORDED, review.case_id)
    with unprotected("review_review"):
        sql("DELETE FROM review_review WHERE id >= %s", review.pk)
    [fault] = verification.check(Audit())
    assert (fault.what, fault.detail) == (FaultCode.REVIEW_MISSING, review.pk)


def test_a_missing_chain_head_is_found(events: list[Event]) -> None:
    with pytest.raises(IntegrityError, match="append-only"), transaction.atomic():
        sql("DELETE FROM review_chainhead")
    with unprotected("review_chainhead"):
        sql("DELETE FROM review_chainhead WHERE name = 'event'")
    assert (FaultCode.NO_END, 0, 0) in faults()
    with pytest.raises(ChainHead.DoesNotExist):  # nothing can be appended without a head
        open_case(9)


@pytest.mark.parametrize("table", ["review_event", "review_review", "review_personevent", "review_chainhead"])
def test_statements_that_delete_rows_implicitly_are_refused(events: list[Event], table: str) -> None:
    with trail.recording_events():
        trail.record_person(events[1].actor, PersonEvent.Kind.EDITED, None)
    postgres = connection.vendor == "postgresql"
    statement = f"TRUNCATE {table} CASCADE" if postgres else f"INSERT OR REPLACE INTO {table} SELECT * FROM {table}"
    if postgres:
        sql("SET CONSTRAINTS ALL IMMEDIATE")  # otherwise pending checks raise a different error
    with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
        sql(statement)
    assert faults() == []


def test_verification_reads_many_events_in_little_memory(ana: User) -> None:
    """However many events there are, verification holds only a few thousand in memory."""
    case = open_case()
    transactions = by_profile(20, 100)
    for _ in range(transactions):
        with trail.recording_events():
            for _ in range(500):
                trail.record(case, Event.Kind.PRIORITISED, ana, before=1, after=2)
    Case.objects.filter(pk=case.pk).update(priority=2)

    def verify() -> None:
        progress = Audit()
        assert list(verification.check(progress)) == []
        assert progress.checked == progress.total == transactions * 500 + 2, "including the event of the account"

    assert peak_memory(verify) < 12_000_000


# -------------------------------------------------------------------------------------- concurrency


@pytest.fixture
def physicians(run_concurrently: RunConcurrently) -> list[User]:
    return [account(f"physician-{number}") for number in range(8)]


def test_eight_physicians_at_once_leave_one_chain(physicians: list[User], run_concurrently: RunConcurrently) -> None:
    """Claims lock an assignment, submissions a case, both the chain's head: no deadlock."""
    for number in range(24):
        open_case(number, policy=Policy(secondary=number % 2 == 0, discussion=False))

    def review_until_idle(physician: User) -> None:
        while (assignment := claims.claim_next(physician)) is not None:
            if (
                assignment.pk % 5 == 0
                and assignment.phase == "commit"
                and Event.objects.filter(actor=physician).count() < 9
            ):
                assert assignment.token is not None
                claims.release(physician, assignment.pk, assignment.token)
            else:
                submit(assignment, approval() if assignment.pk % 3 else rejection(change_reason="Seen."))

    def change_priorities() -> None:
        admin = account("admin", UserRole.ADMIN)
        for number, case in enumerate(Case.objects.order_by("-pk").values_list("pk", flat=True)):
            with suppress(errors.CaseClosed):  # the physicians may have closed it
                services.prioritise(case, actor=admin, priority=number)

    outcomes = run_concurrently(
        [*(partial(review_until_idle, physician) for physician in physicians), change_priorities]
    )
    assert [outcome for outcome in outcomes if isinstance(outcome, Exception)] == []
    places = list(Event.objects.order_by("sequence").values_list("sequence", flat=True))
    assert places == list(range(1, len(places) + 1))
    assert len(places) > 24 * 4
    assert faults() == []


# ------------------------------------------------------------------------------------ command, page


def test_the_command_reports_the_faults(events: list[Event], capsys: pytest.CaptureFixture[str]) -> None:
    call_command("verify_audit", "--json")
    result = json.loads(capsys.readouterr().out)
    assert result == {
        "intact": True, "checked": len(events) + PersonEvent.objects.count(), "reviews": Review.objects.count(), "unsealed": 0,
        "sequence": len(events), "hash": events[-1].hash, "accounts": verification.end_of("personevent"),
        "not_covered": [], "faults": [],
    }  # fmt: skip
    call_command("verify_audit", "--anchor", f"{len(events)}:{events[-1].hash}")
    assert f"ends at {len(events)}:{events[-1].hash}" in capsys.readouterr().out
    with unprotected("review_event"):
        delete(5)(events)
        update("kind", "opened")(events)
    with pytest.raises(SystemExit) as stopped:
        call_command("verify_audit", "--json")
    assert stopped.value.code == 1
    chain_faults = [
        fault for fault in json.loads(capsys.readouterr().out)["faults"] if not fault["what"].startswith("review-")
    ]
    assert [(fault["what"], fault["sequence"], fault["id"], fault["case"]) for fault in chain_faults] == [
        ("missing", 5, None, None),
        ("altered", 7, events[6].pk, events[6].case_id),
    ]
    with pytest.raises(SystemExit):
        call_command("verify_audit")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("event 5: missing")
    assert lines[1].startswith(f"event 7 (id {events[6].pk}) · case {events[6].case_id}: altered")


def test_the_page_lists_and_filters_the_events(events: list[Event], adela: User, ana: User, client: Any) -> None:
    client.force_login(adela)

    def listed(**query: Any) -> list[Event]:
        return list(client.get(reverse("review:audit"), query).context["page"].rows)

    assert listed() == events[::-1]
    assert listed(case=events[-1].case_id) == [events[-1]]
    assert listed(actor="ana") == [event for event in events[::-1] if event.actor_id == ana.pk]
    assert listed(kind="closed") == [event for event in events if event.kind == "closed"]
    today = events[0].at.date().isoformat()
    assert listed(since=today, until=today) == events[::-1]
    assert listed(since="2999-01-01") == listed(until="1999-01-01") == []
    for nonsense in ({"case": "x"}, {"since": "2026-02-31"}, {"until": "yesterday"}, {"case": "9" * 30}):
        assert listed(**nonsense) == []
    client.force_login(ana)
    assert client.get(reverse("review:audit")).status_code == 403
    assert client.post(reverse("review:audit-check")).status_code == 403


def test_the_page_starts_a_check_and_shows_its_result(
    events: list[Event],
    adela: User,
    client: Any,
    monkeypatch: pytest.MonkeyPatch,
    django_capture_on_commit_callbacks: Any,
) -> None:
    sent: list[int] = []
    monkeypatch.setattr("review.common.waking.wake", lambda task, pk: sent.append(pk))
    client.force_login(adela)
    page, button = reverse("review:audit"), reverse("review:audit-check")
    assert "Not checked yet" in client.get(page).content.decode()
    for _ in range(2):
        with django_capture_on_commit_callbacks(execute=True):
            assert client.post(button, follow=True).redirect_chain == [(page, 302)]
    assert Audit.objects.count() == 1, "a second request joins the check in progress"
    assert set(sent) == {Audit.objects.get().pk}
    assert "hx-trigger" in client.get(button, headers={"HX-Request": "true"}).content.decode()
    verification.run(sent[0])
    answer = client.get(page).content.decode()
    assert f"{len(events)}:{events[-1].hash}" in answer
    assert "nothing was altered" in answer
    assert 'hx-trigger="every' not in answer
    with unprotected("review_event"):
        update("kind", "opened")(events)
    with django_capture_on_commit_callbacks(execute=True):
        client.post(button)
    verification.run(sent[-1])
    answer = client.get(page).content.decode()
    assert "event 7" in answer
    assert reverse("review:history", args=[events[6].case_id]) in answer
    assert verification.run(sent[0]).faults_count == 0, "a finished check does not run again"


def test_a_late_worker_does_not_open_an_ended_check_again(events: list[Event]) -> None:
    audit = verification.create_check(None)
    late = Audit.objects.get(pk=audit.pk)
    verification.run(audit.pk)
    verification._save_progress(late)
    audit.refresh_from_db()
    assert audit.ended_at is not None


def test_an_abandoned_check_can_be_requested_again(adela: User, clock: Any) -> None:
    first = verification.request_check(adela)
    clock.advance(minutes=3)
    assert verification.check_in_progress() is None
    assert verification.request_check(adela) != first


def test_the_site_says_which_files_it_wrote(db: None, tmp_path: Path, admin_client: Client) -> None:
    (tmp_path / "SHA256SUMS").write_text("0  data.jsonl\n")
    checksum = exports.checksum_of(tmp_path)
    ask = partial(admin_client.get, "/api/v1/audit/checksum/")
    assert ask({"sha256": checksum}).json() == {"exported": None}
    for _again in range(2):
        exports.anchor(tmp_path, "release own 1.0.0")
    assert ask({"sha256": checksum}).json()["exported"]["what"] == "release own 1.0.0"
    assert ask({"sha256": "x"}).status_code == 400
    page = admin_client.get("/review/audit/", {"sha256": checksum.upper()}).content.decode()
    assert "This site wrote these files (release own 1.0.0)" in page
    assert "no record" in admin_client.get("/review/audit/", {"sha256": "0" * 64}).content.decode()
    assert PersonEvent.objects.filter(kind=PersonEvent.Kind.EXPORTED).count() == 1
    assert faults() == []
