"""Compares what the page of a case refuses with what the server refuses."""

import re
from collections.abc import Collection, Sequence
from itertools import chain, combinations, product
from typing import Any

from django.http import QueryDict
from django.urls import reverse
from playwright.sync_api import Page

from review import errors
from review.answers.posted_answers import answers_from_post, asks_for_evidence, without_blank_rows
from review.models import Assignment
from review.rules.citations import is_by_trap
from review.rules.questions import Answers, Form, Problem, Question, question_problems
from review.turns.turn import Moment, ReviewTurn, turn_of

Table = dict[str, str]  # values by the names of fields
Part = tuple[Table, list[Table]]  # what completes a part of the form, and others of its values

# Only the server compares sources with traps, and rubrics with each other.
LEFT_TO_THE_SERVER = {"evidence-missing", "evidence-unfit"}

# Each with `flags`, what the server says of a draft that was saved. Without them, nothing is sent.
TRY_JS = """(forms) => {
  const form = document.querySelector("[data-answers]"), button = form.querySelector("[data-key='ctrl+enter']");
  let sent = false;
  const stop = (event) => { sent = true; event.preventDefault(); event.stopImmediatePropagation(); };
  form.addEventListener("submit", stop);
  const tried = forms.map(({ values, flags }) => {
    for (const [name, value] of Object.entries(values)) {
      for (const field of document.getElementsByName(name)) {
        if (["radio", "checkbox"].includes(field.type)) field.checked = field.value === value;
        else field.value = value;
      }
    }
    for (const part of ["reference", "level"]) {
      form.querySelector(`[name='citation.1.${part}']`)?.dispatchEvent(new Event("input", { bubbles: true }));
    }
    for (const [name, value] of Object.entries(flags ?? {})) {
      const given = document.querySelector(`[data-given="${name}"]`);
      if (given) given.dataset.value = value;
    }
    form.dispatchEvent(new Event("change", { bubbles: true }));
    sent = false;
    if (flags) form.requestSubmit(button);
    const listed = [...form.querySelectorAll("[data-problems] li")].map((line) => line.textContent);
    return { sent, listed, fields: [...new FormData(form)] };
  });
  form.removeEventListener("submit", stop);
  return tried;
}"""


NAMES_JS = "() => [...document.querySelector('[data-answers]').elements].map(field => field.name).filter(Boolean)"
# Fields of the page that answer no question, and highlights, which are made of selected words.
NO_ANSWERS = r"csrfmiddlewaretoken|token|do|stop|local|revision|over|highlight\..*"


def combinations_of(turn: ReviewTurn) -> tuple[Table, list[Table]]:
    """Values that complete what is asked now as an approval, and others of each field.

    Each is alone and with a rejection, and with a change of what only this moment asks.
    """
    form = turn.shows.form
    looked = turn.first_look is not None
    parts = [_of_question(question) for question in form.questions if not (looked and question.first_look)]
    last: list[Part] = []
    if turn.is_revealed:
        parts += [_of_rubric(form, number) for number in range(len(form.rubrics))]
        parts += [_of_harm(form), _of_source(form), _of_addition(form)]
        last = [_of_verdict(form), _of_moment(turn)]
    complete: Table = {}
    for values, _changes in (*parts, *last):
        complete |= values
    above = [change for _values, changes in parts for change in changes]
    below = [change for _values, changes in last for change in changes]
    whole = [changes[-1] for _values, changes in last if changes]
    pairs = [{**one, **two} for one, two in product(above, whole)]
    return complete, [{}, *above, *below, *pairs]


def _of_question(question: Question) -> Part:
    name = f"question.{question.key}"
    if question.kind == "text":
        return {f"{name}.note": "My words."}, [{f"{name}.note": ""}]
    changes = [{name: ""}]
    for choice in question.choices:
        changes.append({name: choice.value})
        if choice.blocks:
            changes.append({name: choice.value, f"{name}.note": "It is not so."})
    kept = next(choice.value for choice in question.choices if not choice.blocks)
    return {name: kept, f"{name}.note": ""}, changes


def _of_rubric(form: Form, number: int) -> Part:
    """The first rubric in every way; others, which are drawn alike, as far as they are one more."""
    rubric = form.rubrics[number]
    name = f"rubric.{rubric.key}"
    complete = {name: "adequate", f"{name}.note": "", f"{name}.wording": "Corrected."}
    if form.severities:
        complete[f"{name}.severity"] = ""
    if form.severities and not rubric.tags:
        complete[f"{name}.severity"] = _level(form)
    if number > 0:
        return complete, [{name: ""}, {name: "removed", f"{name}.note": "Double."}]
    changes = [
        {name: ""},
        {name: "corrected"},
        {name: "corrected", f"{name}.wording": f"{rubric.criterion} "},
        {name: "inadequate"},
        {name: "inadequate", f"{name}.note": "Wrong."},
    ]
    if form.rubrics_editable:
        changes += [{name: "removed"}, {name: "removed", f"{name}.note": "Double."}]
    if form.severities:
        changes += [{f"{name}.severity": ""}, {f"{name}.severity": form.severities[-1].value}]
    return complete, changes


def _level(form: Form) -> str:
    """The middle level of harm, as in `approval_of`."""
    return form.severities[len(form.severities) // 2].value


def _of_harm(form: Form) -> Part:
    if not form.severities:
        return {}, []
    names = [f"harm.{tag}" for tag in form.tags]
    return dict.fromkeys(names, _level(form)), [{name: ""} for name in names]


def _of_source(form: Form) -> Part:
    if not asks_for_evidence(form):
        return {}, []
    parts = {"reference": "A guideline", "section": "2.1", "passage": "It is not so.", "read_on": "2020-01-15"}
    if is_by_trap(form.terms):
        parts |= {"trap": form.terms[0].code, "level": "guideline"}
    complete = {f"citation.1.{part}": value for part, value in parts.items()}
    changes = [{name: ""} for name in complete]
    return {**complete, "citation.1.kind": ""}, [*changes, {"citation.1.reference": "", "citation.1.passage": ""}]


def _of_addition(form: Form) -> Part:
    if not form.rubrics_editable:
        return {}, []
    criterion = {"added.1.criterion": "Says so."}
    chosen: Table = {}
    if form.tags:
        chosen["added.1.tags"] = form.tags[0]
    if form.severities:
        chosen["added.1.severity"] = _level(form)
    complete = dict.fromkeys((*criterion, *chosen), "")
    return complete, [criterion, {**criterion, **chosen}]


def _of_verdict(form: Form) -> Part:
    if not form.asks_verdict:
        return {}, []
    complete = {"verdict": "approve", "reason": ""}
    rejected = {"verdict": "reject", "reason": "Nobody would ask this."}
    changes = [{"verdict": ""}, {"verdict": "reject"}, rejected]
    if form.reasons:
        complete["reason_code"] = ""
        changes.append({**rejected, "reason_code": form.reasons[0].code})
    return complete, changes


def _of_moment(turn: ReviewTurn) -> Part:
    """The fields that only a confirmation or an adjudication has."""
    complete: Table = {}
    changes: list[Table] = []
    if turn.moment is Moment.CONFIRM:
        complete["change_reason"] = ""
        changes.append({"change_reason": "They are right."})
    if turn.rejected_before and turn.asks.dissents:
        complete |= {"dissent_code": turn.asks.dissents[0].code, "reason": "I do not see it."}
        changes += [{"dissent_code": ""}, {"reason": ""}]
    if turn.declares:
        complete["declaration"] = ""
        changes.append({"declaration": "wording"})
    if turn.common_answers is not None:
        complete["agreed"] = "1"
        changes.append({"agreed": ""})
    return complete, changes


def answers_in(turn: ReviewTurn, fields: list[list[str]]) -> Answers:
    data = QueryDict(mutable=True)
    for name, value in fields:
        data.appendlist(name, value)
    return without_blank_rows(answers_from_post(turn.asks, data))


def refusals(turn: ReviewTurn, fields: list[list[str]]) -> list[Problem]:
    """The problems with which the server refuses these fields; none if it accepts them."""
    answers = answers_in(turn, fields)
    if not turn.is_revealed:
        return question_problems(turn.asks.first_look, answers)
    if ["agreed", "1"] not in fields and (unconfirmed := turn.unconfirmed(answers)):
        return unconfirmed
    try:
        turn.accept(answers)
    except errors.Incomplete as incomplete:
        return list(incomplete.problems)
    return []


def flags_of(turn: ReviewTurn, fields: list[list[str]]) -> dict[str, str]:
    """What the server says of a draft: whether a reason or a declaration is asked for."""
    answers = answers_in(turn, fields)
    flags = {}
    for name, is_asked in (("changed", turn.needs_reason(answers)), ("rewords", turn.needs_declaration(answers))):
        flags[name] = "no"
        if is_asked:
            flags[name] = "yes"
    return flags


def alone_and_in_pairs(others: Sequence[Table]) -> list[Table]:
    return [{}, *others, *({**one, **two} for one, two in combinations(others, 2))]


def left_out(page: Page, complete: Table, changes: Sequence[Table]) -> list[str]:
    """The fields of the page that neither complete it nor change."""
    names = {*complete, *chain.from_iterable(changes)}
    return [name for name in page.evaluate(NAMES_JS) if name not in names and not re.fullmatch(NO_ANSWERS, name)]


def check_each_rule(
    page: Page,
    url: str,
    assignment: Assignment,
    complete: Table,
    changes: Sequence[Table],
    left_to_the_server: Collection[str] = (),
) -> None:
    """Fill in what is complete, with each of the changes, and compare the page with the server."""
    assert assignment.physician is not None
    page.route("**/draft/", lambda route: route.abort())
    page.goto(url + reverse("review:case", args=[assignment.pk]))
    page.locator("[data-answers]").wait_for()
    if page.locator("#add-rubric").count():
        page.locator("#add-rubric").click()
    page.wait_for_timeout(700)  # a submission before counts as a double click
    turn = turn_of(assignment.physician, assignment.pk)
    combined = [{**complete, **change} for change in changes]
    given: list[dict[str, Any]] = [{"values": values, "flags": {}} for values in combined]
    if turn.moment is Moment.CONFIRM:
        filled = page.evaluate(TRY_JS, [{"values": values, "flags": None} for values in combined])
        for one, result in zip(given, filled, strict=True):
            one["flags"] = flags_of(turn, result["fields"])
    tried = page.evaluate(TRY_JS, given)
    wrong = []
    for values, result in zip(combined, tried, strict=True):
        refused = refusals(turn, result["fields"])
        expected = {problem.code for problem in refused}.difference(left_to_the_server)
        is_in_vain = not result["sent"] and not refused
        is_let_through = result["sent"] and expected
        if is_in_vain or is_let_through:
            changed = {name: value for name, value in values.items() if value != complete.get(name)}
            wrong.append((changed, result["listed"], refused))
    assert not wrong, (len(wrong), wrong[:6])
    assert 0 < sum(result["sent"] for result in tried) < len(tried)
