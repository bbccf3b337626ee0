"""Many physicians at work, with old tabs and lost leases: no draft is lost, nobody has two roles, no sealed answer leaks.

A hypothesis state machine drives the real services, and a `Ward` is told of everything: it knows what had to come of it.
Whatever is typed is marked, so that each text can be found again wherever it is shown.
"""

import json
import random
import re
from collections import Counter
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from itertools import permutations
from typing import Any, ClassVar
from uuid import UUID

import pytest
from django.db import connection, transaction
from django.test import Client
from django.urls import reverse
from hypothesis import HealthCheck, note, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from rest_framework.test import APIRequestFactory, force_authenticate

from review import errors
from review.access import visibility
from review.assignments import api, claims, first_look, retraction
from review.assignments import queries as assignments_queries
from review.assignments import services as assignments_services
from review.audit import verification
from review.cases import queries as cases_queries
from review.cases import services as cases_services
from review.discussion import remarks as discussion_remarks
from review.models import Assignment, Case, Declined, Draft, FirstLook, Review, User
from review.people import accounts
from review.rules.blocks import Dialogue, Turn
from review.rules.permissions import UserRole
from review.rules.questions import Answer, Answers, Choice, Form, Question, RubricAnswer, RubricText
from review.rules.state_machine import Opinion, Phase, Policy, Role, State, Verdict
from tests.conftest import Clock, RunConcurrently
from tests.profile import by_profile
from tests.review.factories import account, case_spec, reset_sequences
from tests.review.ward import File, Given, Hand, Kept, Person, Said, Tab, Ward, trap

NAMES = ("ana", "bo", "chen", "dina", "emil", "fei")
MORNING = datetime(2026, 3, 2, 8, tzinfo=UTC)
MARK = re.compile(r"\[\[[a-z]+-\d+\]\]")
Hold = Assignment.Hold

POLICIES = {
    "plain": Policy(),
    "look first": Policy(reveal_first_look=True),
    "no confirmation": Policy(secondary_confirms=False),
    "look first, no discussion": Policy(discussion=False, reveal_first_look=True),
    "fresh eyes, inadequate is no veto": Policy(inadequate_rejects=False, fresh_eyes_required=True),
    "look first, other hospital": Policy(other_hospital=True, reveal_first_look=True),
    "primary alone": Policy(secondary=False),
}
PEOPLE = st.builds(
    Person,
    hospital=st.sampled_from(["North", "South", "West", ""]),
    specialty=st.sampled_from(["", "", "cardiology"]),
    languages=st.sampled_from([(), (), ("en",), ("en", "zh")]),
    stages=st.sampled_from([(), (), (), ("primary",), ("secondary", "adjudication")]),
    cap=st.sampled_from([None, None, None, 1, 2]),
)
RARELY = st.sampled_from([False, False, False, True])
MOST_CASES = 4  # fewer cases, more meetings
ROUNDS = 40


def form(trap: str) -> Form:
    """One question of the first look, one that can find the rubric inadequate, and a rubric that names the trap."""
    no = Choice("no", "No", blocks=True)
    return Form(
        questions=(
            Question("natural", "Natural", "Could this have been said?", (Choice("yes", "Yes"), no), first_look=True),
            Question("aligned", "Aligned", "Does it meet the trap?", (Choice("yes", "Yes"), replace(no, inadequate=True))),
        ),
        rubrics=(RubricText("R1", f"Names {trap}.", ("A1",)),),
    )  # fmt: skip


def answers(opinion: Opinion | None, text: str) -> Answers:
    """Answers that come to `opinion`; incomplete without one."""
    if opinion is None:
        return Answers(reason=text)
    return Answers(
        questions={"natural": Answer("yes"), "aligned": Answer("no", "Beside it.") if opinion.inadequate else Answer("yes")},
        rubrics={"R1": RubricAnswer("adequate")},
        verdict=opinion.verdict,
        reason=text,
        change_reason="I see it now.",
    )  # fmt: skip


@dataclass
class Act:
    """Something somebody does: on the site, and, with what came of it, in a ward."""

    label: str
    perform: Callable[[], Any]
    tell: Callable[[Ward, Any], object]

    def on_site(self) -> Any:
        """What came of it; of a refusal, its class."""
        try:
            return self.perform()
        except errors.ReviewError as refusal:
            return type(refusal)


class Site:
    """The real thing: what people do through its services, and whether it stores and shows what a ward says."""

    def __init__(self) -> None:
        self.users = {user.username: user for user in User.objects.filter(username__in=[*NAMES, "adela", "rui"])}
        self.ids = {user.pk: name for name, user in self.users.items()}
        self.texts = 0

    def text(self) -> str:
        """Something to type that nobody has typed before."""
        self.texts += 1
        return f"[[text-{self.texts}]]"

    # ------------------------------------------------------------------------------------------------ acts of physicians

    def claim(self, who: str) -> Act:
        def perform() -> Hand | None:
            taken = claims.claim_next(self.users[who])
            return self._hand(taken) if taken is not None else None

        return Act(f"{who} asks for the next case", perform, lambda ward, hand: ward.claimed(who, hand))

    def heartbeat(self, tab: Tab) -> Act:
        return self._in_tab(tab, "sends a heartbeat", claims.heartbeat, Ward.beaten)

    def save(self, tab: Tab) -> Act:
        text = self.text()
        seen = tab.seen
        keep = partial(assignments_services.save_draft, answers=Answers(reason=text), revision=seen)
        return self._in_tab(
            tab,
            f"saves {text}",
            lambda *it: keep(*it).revision,
            lambda ward, own, outcome: ward.saved(own, text, seen, outcome),
        )

    def reveal(self, tab: Tab) -> Act:
        text = self.text()
        look = partial(first_look.reveal, answers=Answers({"natural": Answer("yes", text)}))
        return self._in_tab(
            tab, f"takes the first look {text}", look, lambda ward, own, outcome: ward.revealed(own, text, outcome)
        )

    def submit(self, tab: Tab, verdict: Verdict | None, *, inadequate: bool = False) -> Act:
        text, seen = self.text(), tab.seen
        said = Opinion(tab.role, tab.phase, verdict, inadequate) if verdict else None
        answered = answers(said, text)

        def perform(user: User, assignment: int, token: UUID) -> Given:
            review = assignments_services.submit(user, assignment, token, answered, revision=seen)
            assert review.physician == self.users[tab.who]
            after = review.assignment
            return Given(review.pk, self._hand(after) if after.hold == Hold.HELD else None)

        does = f"submits {text} ({verdict or 'incomplete'}{', rubric inadequate' if inadequate else ''})"
        return self._in_tab(
            tab, does, perform, lambda ward, own, outcome: ward.submitted(own, said, text, seen, outcome)
        )

    def release(self, tab: Tab) -> Act:
        return self._in_tab(tab, "gives it back", claims.release, partial(Ward.given_back, declined=False))

    def decline(self, tab: Tab) -> Act:
        decline = partial(claims.decline, reason=Declined.Reason.FIELD)
        return self._in_tab(tab, "declines it", decline, partial(Ward.given_back, declined=True))

    def _in_tab(self, tab: Tab, does: str, call: Callable[..., Any], tell: Callable[[Ward, Tab, Any], object]) -> Act:
        def perform() -> Any:
            made = call(self.users[tab.who], tab.assignment, tab.token)
            return made if isinstance(made, Given | int) else None  # what else there is to know, the ward sees stored

        return Act(f"{tab} {does}", perform, lambda ward, outcome: tell(ward, ward.tabs[tab.number - 1], outcome))

    def retract(self, said: Said, case: int) -> Act:
        def perform() -> Hand:
            return self._hand(retraction.retract(self.users[said.who], said.review))

        def tell(ward: Ward, outcome: Any) -> None:
            file = ward.files[case]
            ward.retracted(file, next(each for each in file.said if each.review == said.review), outcome)

        return Act(f"{said} of case {case} is taken back", perform, tell)

    def remark(self, who: str, case: int) -> Act:
        text = self.text()

        def perform() -> None:
            discussion_remarks.remark(self.users[who], case, text)

        return Act(
            f"{who} remarks {text} on case {case}",
            perform,
            lambda ward, outcome: ward.remarked(who, ward.files[case], text, outcome),
        )

    def _hand(self, assignment: Assignment) -> Hand:
        assert assignment.token is not None
        assert assignment.physician is not None
        kept = assignments_queries.draft_of(assignment, assignment.physician)
        return Hand(
            assignment.pk,
            assignment.case_id,
            Role(assignment.role),
            Phase(assignment.phase),
            assignment.token,
            Kept(kept.answers["reason"], kept.revision) if kept is not None else None,
        )

    # ----------------------------------------------------------------------------------- acts of admins, engine and time

    def open(
        self,
        number: int,
        version: int,
        policy: Policy,
        language: str = "",
        specialty: str = "",
        asked_for: tuple[str, ...] = (),
    ) -> Act:
        mark = trap(number, version)
        spec = case_spec(
            number,
            version=version,
            form=form(mark),
            policy=policy,
            language=language,
            specialty=specialty,
            asked_for=asked_for,
            blocks=(Dialogue(f"With {mark}", (Turn("user", f"May I take {mark}?"),)),),
            first_look=(Dialogue("Plain", (Turn("user", "May I take it?"),)),),
        )

        def tell(ward: Ward, case: Case) -> None:
            cited = frozenset(MARK.findall(" ".join(asked_for)))
            ward.opened(File(case.pk, number, version, policy, language, specialty, cited))

        return Act(
            f"version {version} of sample {number} is opened", partial(assignments_services.open_case, spec), tell
        )

    def regenerate(self, file: File) -> Act:
        """The next version, as the engine opens it when physicians have rejected this one."""
        reasons = cases_queries.settled_case(Case.objects.get(pk=file.pk)).reasons
        assert set(MARK.findall(" ".join(reasons))) <= {said.text for said in file.counted}
        return self.open(file.lineage, file.version + 1, file.policy, file.language, file.specialty, reasons)

    def sweep(self) -> Act:
        return Act("the sweeper comes", claims.expire_leases, Ward.swept)

    def withdraw(self, case: int) -> Act:
        def perform() -> None:
            cases_services.withdraw(case, actor=self.users["adela"], reason="Not needed.")

        return Act(
            f"case {case} is withdrawn", perform, lambda ward, outcome: ward.withdrawn(ward.files[case], outcome)
        )

    def reassign(self, case: int, role: Role, to: str | None) -> Act:
        def perform() -> None:
            claims.reassign(case, role, to=self.users[to] if to else None, actor=self.users["adela"])

        return Act(
            f"{role} of case {case} is handed to {to or 'anybody'}",
            perform,
            lambda ward, outcome: ward.reassigned(ward.files[case], role, to, outcome),
        )

    def prioritise(self, case: int, priority: int) -> Act:
        change = partial(cases_services.prioritise, case, actor=self.users["adela"], priority=priority)
        return Act(
            f"case {case} gets priority {priority}",
            change,
            lambda ward, outcome: ward.prioritised(ward.files[case], priority, outcome),
        )

    def pause(self, who: str, paused: bool) -> Act:
        def tell(ward: Ward, outcome: Any) -> None:
            ward.people[who].paused = paused

        change = partial(accounts.set_paused, self.users[who].pk, paused, actor=self.users["adela"])
        return Act(f"{who} is {'paused' if paused else 'back'}", change, tell)

    # --------------------------------------------------------------------------------------------- what is stored, shown

    def stores(self, ward: Ward) -> None:
        """Every row is as the ward has it."""
        cases = {case.pk: case for case in Case.objects.all()}
        assert cases.keys() == ward.files.keys()
        rows: dict[int, dict[Role, Assignment]] = {pk: {} for pk in cases}
        for row in Assignment.objects.all():
            rows[row.case_id][Role(row.role)] = row
            assert row.priority == ward.files[row.case_id].priority
        for pk, file in ward.files.items():
            now = file.position
            stored = (cases[pk].state, cases[pk].ground, cases[pk].priority)
            assert stored == (now.state, now.ground or "", file.priority), f"case {pk}"
            assert rows[pk].keys() == file.slots.keys(), f"case {pk} has the wrong roles open"
            for role in file.slots:
                self._stores_slot(rows[pk][role], file, role)
            physicians = [slot.holder for slot in file.slots.values() if slot.holder]
            assert len(physicians) == len(set(physicians)), f"somebody has two roles in case {pk}: {physicians}"

        counted = visibility.counted_reviews().order_by("pk")
        given = [(r.pk, r.case_id, self.ids[r.physician_id], r.role, r.phase, r.answers["reason"]) for r in counted]
        assert given == sorted(
            (said.review, file.pk, said.who, said.opinion.role, said.opinion.phase, said.text)
            for file in ward.files.values()
            for said in file.counted
        )
        roles = {(who, case, role) for _, case, who, role, _, _ in given}
        assert len(roles) == len({(who, case) for who, case, _ in roles}), "somebody's answers count in two roles"

        drafts = {
            (self.ids[d.physician_id], d.assignment.case_id, Role(d.assignment.role), Phase(d.phase)): Kept(
                d.answers["reason"], d.revision
            )
            for d in Draft.objects.select_related("assignment")
        }
        assert drafts == ward.drafts, "a draft is lost, or another was kept"
        looks = {
            (look.assignment.case_id, self.ids[look.physician_id], Role(look.assignment.role)): look.answers[
                "questions"
            ]
            for look in FirstLook.objects.select_related("assignment")
        }
        assert {key: look["natural"]["note"] for key, look in looks.items()} == {
            (file.pk, *key): text for file in ward.files.values() for key, text in file.looked.items()
        }

    def _stores_slot(self, row: Assignment, file: File, role: Role) -> None:
        slot, due = file.slots[role], file.due(role)
        holder = self.ids[row.physician_id] if row.physician_id else None
        reserved = self.ids[row.reserved_for_id] if row.reserved_for_id else None
        assert (holder, row.phase, reserved) == (slot.holder, slot.phase, slot.reserved), f"{role} of case {file.pk}"
        if not due:
            assert row.hold in (Hold.WAITING, Hold.DONE)
        elif slot.holder is None:
            assert (row.hold, row.token) == (Hold.OPEN, None)
        else:
            assert (row.hold, row.lease_until) == (Hold.HELD, slot.until)
            assert slot.token in (None, row.token)

    def shows(self, ward: Ward, case: int) -> None:
        """Everybody reads what is theirs to read of a case, and nothing else, by query and by API."""
        file, stored = ward.files[case], Case.objects.get(pk=case)
        everything = [said.review for said in file.counted]
        had_it = {tab.who for tab in ward.tabs if tab.case == case}
        outsiders = [name for name in NAMES if name not in had_it][:1]
        for name in [*sorted(had_it), *outsiders, "adela", "rui"]:
            user = self.users[name]
            shown = [review.pk for review in visibility.reviews_shown_to(user, stored)]
            remarks = [remark.text for remark in discussion_remarks.remarks_shown_to(user, stored)]
            if name not in ward.people:
                assert shown == (everything if name == "adela" else []), name
                continue
            assert shown == [said.review for said in ward.readable(name, file)], f"{name} reads other reviews"
            assert remarks == ward.remarks_for(name, file), f"{name} reads other remarks"
        for slot in file.slots.values():
            if slot.assignment is not None:
                other = next(name for name in NAMES if name != slot.holder)
                for name in {slot.holder or other, other}:
                    self._shows_work(ward, name, slot.assignment, file)

    def _shows_work(self, ward: Ward, name: str, assignment: int, file: File) -> None:
        request = APIRequestFactory().get("/")
        force_authenticate(request, self.users[name])
        answer = api.AssignmentViewSet.as_view({"get": "retrieve"})(request, assignment_id=assignment)
        own = next(role for role, slot in file.slots.items() if slot.assignment == assignment)
        if file.slots[own].holder != name:
            assert answer.status_code == 404
            return
        assert answer.status_code == 200
        self.leaks_nothing(json.dumps(answer.data, default=str), ward, name, file)
        kept = ward.drafts.get((name, file.pk, own, file.slots[own].phase))
        assert (answer.data["draft"] and answer.data["draft"]["answers"]["reason"]) == (kept and kept.text)

    def leaks_nothing(
        self, page: str, ward: Ward, name: str, file: File, *, also: frozenset[str] = frozenset()
    ) -> None:
        sealed = set(MARK.findall(page)) - ward.texts_for(name, file) - also
        assert not sealed, f"{name} is shown what is sealed: {sorted(sealed)}"

    def page(self, who: str, assignment: int) -> Any:
        """The page of an assignment, as a browser gets it."""
        client = Client()
        client.force_login(self.users[who])
        return client.get(reverse("review:case", args=[assignment]), follow=True)


class ManyPhysicians(RuleBasedStateMachine):
    """One example is a savepoint, rolled back at its end."""

    clock: ClassVar[Clock]
    met: ClassVar[Counter[str]]  # refusals, and the states in which cases were, over all examples

    def __init__(self) -> None:
        super().__init__()
        self.savepoint = transaction.atomic()
        self.savepoint.__enter__()
        reset_sequences(Case, Assignment, Draft, Review)
        self.clock.now = MORNING
        self.site = Site()
        self.touched: set[int] = set()

    def teardown(self) -> None:
        try:
            assert not list(verification.check(verification.CheckProgress()))
            connection.check_constraints()
        finally:
            transaction.set_rollback(True)
            self.savepoint.__exit__(None, None, None)

    def do(self, act: Act, *cases: int) -> Any:
        note(act.label)
        outcome = act.on_site()
        if isinstance(outcome, type):
            note(f"    {outcome.__name__}")
            self.met[outcome.__name__] += 1
        self.touched |= set(cases)
        return act.tell(self.ward, outcome)

    @property
    def files(self) -> dict[int, File]:
        return self.ward.files

    def tabs(self, *, late: bool) -> dict[str, list[Tab]]:
        """Windows by why nothing can be done in them any more, the newest first; not `late`: those in which something can."""
        found: dict[str, list[Tab]] = {}
        for tab in reversed(self.ward.tabs):
            refusal = self.ward.refusal(tab)
            if (refusal is not None) == late:
                found.setdefault(refusal.__name__ if refusal else "", []).append(tab)
        return found

    def tab(self, data: st.DataObject, *, late: bool = False) -> Tab:
        """One of `tabs`, for each reason as often; if there is none, any."""
        tabs = self.tabs(late=late) or {"": self.ward.tabs[::-1]}
        return data.draw(st.sampled_from(tabs[data.draw(st.sampled_from(sorted(tabs)))]), "tab")

    def file(self, data: st.DataObject) -> File:
        return data.draw(st.sampled_from(list(self.files.values())), "case")

    def rejected(self) -> list[File]:
        """Cases that come back in a version that is not opened yet."""
        newest = {file.lineage: file for file in self.files.values()}
        return [file for file in newest.values() if file.position.state is State.REJECTED]

    @initialize(
        people=st.tuples(*[PEOPLE] * len(NAMES)),
        policies=st.lists(st.sampled_from(list(POLICIES)), min_size=2, max_size=2),
        done=st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(Verdict)), max_size=12),
    )
    def some_work_is_done(
        self, people: tuple[Person, ...], policies: list[str], done: list[tuple[str, Verdict]]
    ) -> None:
        # Hypothesis hands the same objects to other examples.
        self.ward = Ward(
            {name: replace(person) for name, person in zip(NAMES, people, strict=True)},
            now=MORNING,
            lease=claims.lease(),
        )
        for name, person in self.ward.people.items():
            about = {field: getattr(person, field) for field in ("hospital", "specialty")}
            lists = {field: list(getattr(person, field)) for field in ("languages", "stages")}
            User.objects.filter(username=name).update(**about, **lists, daily_cap=person.cap)
        self.site = Site()
        for number, policy in enumerate(policies, 1):
            self.do(self.site.open(number, 1, POLICIES[policy]))
        for who, verdict in done:
            self.works(who, verdict, False)

    # ---------------------------------------------------------------------------------------------------- the physicians

    @rule(who=st.sampled_from(NAMES))
    def asks_for_the_next(self, who: str) -> None:
        tab = self.do(self.site.claim(who))
        if tab is not None:
            self.touched.add(tab.case)

    @rule(who=st.sampled_from(NAMES), verdict=st.sampled_from(Verdict), inadequate=RARELY)
    def works(self, who: str, verdict: Verdict, inadequate: bool) -> None:
        """Takes what comes, looks, types, and submits it."""
        tab = self.do(self.site.claim(who))
        if tab is None:
            return
        file = self.files[tab.case]
        if file.policy.reveal_first_look and (who, tab.role) not in file.looked:
            self.do(self.site.reveal(tab), tab.case)
        self.do(self.site.save(tab), tab.case)
        verdict = Verdict.REJECT if inadequate else verdict
        self.do(self.site.submit(tab, verdict, inadequate=inadequate), tab.case)

    @rule(who=st.sampled_from(NAMES), types=st.booleans(), swept=st.booleans())
    def walks_away(self, who: str, types: bool, swept: bool) -> None:
        """Takes a case and forgets it."""
        tab = self.do(self.site.claim(who))
        if tab is not None and types:
            self.do(self.site.save(tab), tab.case)
        self.time_goes_by(16, swept)

    @rule(who=st.sampled_from(NAMES))
    def types_in_two_windows(self, who: str) -> None:
        """Opens a case twice, and types in the second window what does not know of the first."""
        tabs = [self.do(self.site.claim(who)) for _ in range(2)]
        for tab in filter(None, tabs):
            self.do(self.site.save(tab))

    @precondition(lambda self: self.tabs(late=False))
    @rule(data=st.data())
    def types(self, data: st.DataObject) -> None:
        self.do(self.site.save(self.tab(data)))

    @precondition(lambda self: self.tabs(late=True))
    @rule(data=st.data())
    def types_where_it_is_too_late(self, data: st.DataObject) -> None:
        self.do(self.site.save(self.tab(data, late=True)))

    @precondition(lambda self: self.tabs(late=False))
    @rule(data=st.data())
    def reveals(self, data: st.DataObject) -> None:
        tab = self.tab(data, late=data.draw(RARELY))
        self.do(self.site.reveal(tab), tab.case)

    @precondition(lambda self: self.tabs(late=False))
    @rule(data=st.data(), verdict=st.sampled_from([*Verdict, *Verdict, None]))
    def submits(self, data: st.DataObject, verdict: Verdict | None) -> None:
        tab = self.tab(data)
        self.do(self.site.submit(tab, verdict), tab.case)

    @precondition(lambda self: self.tabs(late=True))
    @rule(data=st.data(), verdict=st.sampled_from(Verdict))
    def submits_one_too_many(self, data: st.DataObject, verdict: Verdict) -> None:
        tab = self.tab(data, late=True)
        self.do(self.site.submit(tab, verdict), tab.case)

    @precondition(lambda self: self.tabs(late=False))
    @rule(data=st.data(), does=st.sampled_from(["release", "release", "decline", "heartbeat"]))
    def stays_or_gives_it_back(self, data: st.DataObject, does: str) -> None:
        tab = self.tab(data, late=data.draw(RARELY))
        self.do(getattr(self.site, does)(tab), *([] if does == "heartbeat" else [tab.case]))

    @precondition(lambda self: any(file.said for file in self.files.values()))
    @rule(data=st.data())
    def takes_back(self, data: st.DataObject) -> None:
        said = [(said, file.pk) for file in self.files.values() for said in file.said]
        chosen, case = data.draw(st.sampled_from(sorted(said, key=lambda pair: -pair[0].review)), "review")
        self.do(self.site.retract(chosen, case), case)

    @rule(data=st.data(), who=st.sampled_from([*NAMES, "adela"]))
    def remarks(self, data: st.DataObject, who: str) -> None:
        file = self.file(data)
        self.do(self.site.remark(who, file.pk), file.pk)

    @precondition(lambda self: self.ward.tabs)
    @rule(data=st.data())
    def opens_the_page(self, data: st.DataObject) -> None:
        """Comes back to a case by its address: it is there with the draft, or what was typed is shown to be copied."""
        tab = data.draw(st.sampled_from(self.ward.tabs[::-1]), "tab")
        note(f"{tab} is loaded anew")
        page = self.site.page(tab.who, tab.assignment)
        file, text = self.files[tab.case], page.content.decode()
        slot = file.slots[tab.role]
        kept = self.ward.drafts.get((tab.who, tab.case, tab.role, slot.phase))
        if slot.holder == tab.who:
            before = {other.trap for other in self.files.values() if other.lineage == file.lineage}
            earlier = frozenset(before if self.ward.knows_trap(tab.who, file) else ())
            self.site.leaks_nothing(text, self.ward, tab.who, file, also=earlier)
            if file.due(tab.role):
                assert page.status_code == 200
                slot.until = self.ward.now + self.ward.lease  # a sign of life
                looking = not self.ward.knows_trap(tab.who, file)  # that form has no field for what was typed
                assert kept is None or looking or kept.text in text, "the draft is not on the page"
        else:
            drafts = [kept.text for key, kept in self.ward.drafts.items() if key[:3] == (tab.who, tab.case, tab.role)]
            assert page.status_code == (409 if drafts else 404)
            looked = file.looked.get((tab.who, tab.role))
            assert set(MARK.findall(text)) <= {*drafts, looked}, "more is shown than what was typed"
            assert not drafts or set(MARK.findall(text)) & set(drafts), "what was typed is not shown"

    # ------------------------------------------------------------------------------------------- time, admins, the engine

    @rule(minutes=st.sampled_from([16, 16, 10, 14 * 60]), sweeps=st.booleans())
    def time_goes_by(self, minutes: int, sweeps: bool) -> None:
        note(f"{minutes} minutes go by")
        self.clock.advance(minutes=minutes)
        self.ward.now = self.clock.now
        if sweeps:
            self.do(self.site.sweep(), *self.files)

    @precondition(lambda self: len(self.files) < MOST_CASES)
    @rule(
        policy=st.sampled_from(list(POLICIES)),
        language=st.sampled_from(["", "en", "zh"]),
        specialty=st.sampled_from(["", "cardiology", "oncology"]),
    )
    def another_sample(self, policy: str, language: str, specialty: str) -> None:
        number = 1 + max(file.lineage for file in self.files.values())
        self.do(self.site.open(number, 1, POLICIES[policy], language, specialty))

    @precondition(lambda self: self.rejected())
    @rule(data=st.data())
    def regenerates(self, data: st.DataObject) -> None:
        file = data.draw(st.sampled_from(self.rejected()), "rejected")
        self.do(self.site.regenerate(file))

    @rule(data=st.data(), does=st.sampled_from(["reassign"] * 4 + ["pause", "resume", "prioritise", "withdraw"]))
    def an_admin_steps_in(self, data: st.DataObject, does: str) -> None:
        file, who = self.file(data), data.draw(st.sampled_from(NAMES), "whom")
        if does == "reassign":
            role = data.draw(st.sampled_from([*file.slots, *file.slots, *Role]), "role")
            self.do(self.site.reassign(file.pk, role, data.draw(st.sampled_from([who, None]))), file.pk)
        elif does == "prioritise":
            self.do(self.site.prioritise(file.pk, data.draw(st.sampled_from([5, -5]))))
        elif does == "withdraw":
            self.do(self.site.withdraw(file.pk), file.pk)
        else:
            self.do(self.site.pause(who, does == "pause"))

    # --------------------------------------------------------------------------------------------------- after every step

    @invariant()
    def all_is_stored_and_nothing_leaks(self) -> None:
        self.site.stores(self.ward)
        for case in sorted(self.touched):
            self.site.shows(self.ward, case)
            self.met[self.files[case].position.state] += 1
        self.touched.clear()


def _employ() -> None:
    for name in NAMES:
        account(name)
    account("adela", UserRole.ADMIN)
    account("rui", UserRole.RESEARCHER)


@pytest.fixture
def ward_staff(db: None) -> None:
    _employ()


def test_whatever_many_physicians_do(ward_staff: None, clock: Clock) -> None:
    ManyPhysicians.clock, ManyPhysicians.met = clock, Counter()
    for start in by_profile([1], range(1, 9)):  # of many examples of one start most are alike
        run_state_machine_as_test(
            seed(start)(ManyPhysicians),
            settings=settings(
                deadline=None,
                database=None,
                max_examples=8,
                stateful_step_count=60,
                report_multiple_bugs=False,
                suppress_health_check=list(HealthCheck),
            ),
        )
    wanted = {"LeaseLost", "AlreadySubmitted", "NotUndoable", "StaleDraft", *State}
    assert not wanted - ManyPhysicians.met.keys(), f"it did not get far: {ManyPhysicians.met}"


@pytest.mark.parametrize("seed", range(2))
def test_several_things_truly_at_once(run_concurrently: RunConcurrently, clock: Clock, seed: int) -> None:
    """Whatever is done at once comes to what one order of the same comes to."""
    chance = random.Random(seed)
    clock.now = MORNING
    _employ()
    site, ward = Site(), Ward({name: Person() for name in NAMES}, now=MORNING, lease=claims.lease())
    for number in range(1, ROUNDS + 1):
        if len([file for file in ward.files.values() if not file.position.state.final]) < 2:
            opening = site.open(number, 1, chance.choice([Policy(), Policy(reveal_first_look=True)]))
            opening.tell(ward, opening.on_site())
        if chance.random() < 0.3:
            clock.advance(minutes=16)
            ward.now = clock.now
        acts = _at_once(site, ward, chance)
        outcomes = run_concurrently([act.on_site for act in acts])
        story = [f"{act.label}: {outcome}" for act, outcome in zip(acts, outcomes, strict=True)]
        unexpected = [outcome for outcome in outcomes if isinstance(outcome, Exception)]
        assert not unexpected, "\n".join(story)
        ward = _in_some_order(site, ward, list(zip(acts, outcomes, strict=True)), story)
        for case in ward.files:
            if not ward.files[case].position.state.final:
                site.shows(ward, case)
    assert not list(verification.check(verification.CheckProgress()))


def _at_once(site: Site, ward: Ward, chance: random.Random) -> list[Act]:
    """What three do at once: physicians with whatever they hold, an admin, the sweeper; at times one in two windows."""
    acts = []
    for who in chance.sample(NAMES, 2):
        tabs = [tab for tab in ward.tabs if tab.who == who]
        live = [tab for tab in tabs if ward.refusal(tab) is None]
        if not live or chance.random() < 0.1:
            acts.append(site.claim(who))
        if not tabs:
            continue
        tab = chance.choice(live or tabs)
        if (who, tab.role) not in ward.files[tab.case].looked and chance.random() < 0.8:
            does = [site.reveal]
        else:
            verdict = partial(site.submit, verdict=chance.choice(list(Verdict)))
            does = [verdict, verdict, verdict, site.save, site.release, site.heartbeat]
        if live:  # a claim besides would read the draft while it changes
            acts = [act for act in acts if act.label != site.claim(who).label]
            acts += [do(tab) for do in chance.choices(does, k=chance.choice([1, 1, 2]))]
    said = [(said, file.pk) for file in ward.files.values() for said in file.counted[-1:]]
    open_cases = [file.pk for file in ward.files.values() if not file.position.state.final]
    case = chance.choice(open_cases)
    role = chance.choice(list(ward.files[case].slots))
    acts.append(
        chance.choice(
            [
                site.sweep(),
                site.sweep(),
                site.retract(*chance.choice(said)) if said else site.sweep(),
                site.reassign(case, role, chance.choice([None, *NAMES])),
                site.prioritise(case, chance.choice([5, -5])),
                site.withdraw(case) if chance.random() < 0.3 else site.sweep(),
            ]
        )
    )
    return acts


def _in_some_order(site: Site, ward: Ward, done: list[tuple[Act, Any]], story: list[str]) -> Ward:
    """The ward after `done`, told in an order that explains every outcome and all that is stored."""
    wrong = []
    for order in permutations(done):
        after = deepcopy(ward)
        try:
            for act, outcome in order:
                act.tell(after, outcome)
            site.stores(after)
        except (AssertionError, KeyError) as error:
            wrong.append(str(error).partition("\n")[0])
        else:
            return after
    raise AssertionError("No order explains\n" + "\n".join([*story, "because", *dict.fromkeys(wrong)]))
