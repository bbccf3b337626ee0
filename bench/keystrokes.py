"""Counts the keys and stops that a review takes, in Chromium: `python -m bench.keystrokes`.

Each script works on one case by keyboard like an experienced physician. A chord and a paste are one
key each; a stop is a group of answers or a field into which something was entered. The newcomer
answers only what the page marks as required; rejected submissions are counted.
"""

import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import django

from bench import servers, sites
from bench.core import Result, at_most, exactly, skipped, table
from mhb_site.server import children

if TYPE_CHECKING:
    from playwright.sync_api import Page

RUBRICS = 9
SOURCE = "Invented guideline on headache, 2024"
STUDY = "10.1000/invented.2020.1"  # where a source has no level, a DOI says all
PASSAGE = "There is no such drug."
GOALS = {"MHB primary": (14, 12), "MedHallu primary": (8, None), "confirmation": (1, None), "adjudication": (8, None)}
GOALS |= {"ClinHallu primary": (6, None), "MedHal primary": (4, None), "MedMistake primary": (8, None)}
MAX_STEPS = 80  # a script that needs more is stuck


# -------------------------------------------------------------------------------------------- cases


def prepare() -> dict[str, Any]:
    """Create one case for each script, held by its own physician; returns the arguments of `walk`.

    The database is migrated and empty.
    """
    from django.conf import settings

    from bench.cases import medhallu_spec, spec_with_rubrics
    from review.calibration import practice
    from review.cases import services as cases_services
    from review.rules.case_spec import CaseSpec

    def hold_case(name: str, spec: CaseSpec, *before: Callable[[Any], None]) -> dict[str, Any]:
        case = cases_services.open_case(spec)
        for step in before:
            step(case)
        physician, session = _account(name)
        cookie = {"name": settings.SESSION_COOKIE_NAME, "value": session}
        return {"cookie": cookie, "assignment": _claim(physician).public_id, "digits": _digits(spec)}

    cases = {"MHB primary": hold_case("primary", spec_with_rubrics(1, RUBRICS))}
    cases["newcomer"] = hold_case("newcomer", spec_with_rubrics(5, RUBRICS))
    cases["MedHallu primary"] = hold_case("medhallu", medhallu_spec(2))
    for name in ("ClinHallu", "MedHal", "MedMistake"):
        practised = practice.practice(name.lower())
        if practised is None:
            raise RuntimeError(f"{name} has no practice case")
        cases[f"{name} primary"] = hold_case(name.lower(), replace(practised.spec, lineage=f"bench-{name}"))
    cases["confirmation"] = hold_case("confirming", spec_with_rubrics(3, RUBRICS), _review_as_primary)
    _submit(_user("confirming"), changed=False)
    cases["adjudication"] = hold_case(
        "adjudicating", spec_with_rubrics(4, RUBRICS), _review_as_primary, _review_as_dissenting_secondary
    )
    return cases


def _user(name: str) -> Any:
    from review.models import User

    return User.objects.get(username=name)


def _account(name: str) -> tuple[Any, str]:
    from bench.seed import sign_in

    session = sign_in(name, "physician")
    return _user(name), session


def _claim(physician: Any) -> Any:
    from review.assignments import claims

    assignment = claims.claim_next(physician)
    if assignment is None:
        raise RuntimeError(f"nothing for {physician}")
    return assignment


def _review_as_primary(case: Any) -> None:
    primary, _session = _account(f"primary-{case.pk}")
    _claim(primary)
    _submit(primary, changed=False)


def _review_as_dissenting_secondary(case: Any) -> None:
    """Submit a second review that differs in a question, a rubric, and therefore the verdict."""
    secondary, _session = _account(f"secondary-{case.pk}")
    _claim(secondary)
    for _phase in ("commit", "confirm"):
        _submit(secondary, changed=True)


def _submit(physician: Any, *, changed: bool) -> None:
    """Submit complete answers to the case of a physician, after finishing the first look."""
    from review.access import visibility
    from review.assignments import first_look, services
    from review.rules.questions import Answer, Answers, Citation, RubricAnswer
    from review.turns.turn import ReviewTurn

    assignment = visibility.assignments_held_by(physician).get()
    token = assignment.token
    if token is None:
        raise RuntimeError(f"{assignment} is held without a token")
    form = assignment.case.frozen.form
    choices = {question.key: next(c for c in reversed(question.choices) if not c.blocks) for question in form.questions}
    answers = Answers(
        questions={key: Answer(choice.value) for key, choice in choices.items()},
        rubrics={rubric.key: RubricAnswer("adequate", severity="mild") for rubric in form.rubrics},
        citations=tuple(
            Citation("guideline", SOURCE, "2.1", PASSAGE, "2020-01-15", trap=term.code, level="guideline")
            for term in form.terms
        ),
        verdict="approve",
    )
    if changed:
        coherence = next(question for question in form.questions if question.key == "coherence")
        blocked = next(choice for choice in coherence.choices if choice.blocks)
        last = form.rubrics[-1].key
        answers = replace(
            answers,
            questions={**answers.questions, coherence.key: Answer(blocked.value, "It contradicts itself.")},
            rubrics={**answers.rubrics, last: RubricAnswer("removed", note="It says nothing new.")},
            verdict="reject",
            reason="It can be spotted.",
            reason_code=form.reasons[0].code,
        )
    turn = ReviewTurn(physician, assignment)
    if not turn.is_revealed:
        turn = first_look.reveal(turn, token, answers)
    services.submit(turn, token, answers)


def _digits(spec: Any) -> dict[str, int]:
    """The digit to press for each question: the last choice that does not block approval."""
    return {
        f"question.{question.key}": max(n for n, choice in enumerate(question.choices, 1) if not choice.blocks)
        for question in spec.form.questions
        if question.choices
    }


# ----------------------------------------------------------------------------------------- keyboard

# Describes the group or field in focus, and the groups still to answer.
PAGE_STATE_JS = """() => {
  const seen = (one) => one.checkVisibility();
  const name = (stop) => stop?.querySelector("input")?.name;
  const stops = [...document.querySelectorAll("[data-answers] [data-stop]")].filter(seen);
  const focused = document.activeElement.closest?.("[data-stop]");
  const field = document.activeElement.matches?.("textarea, input:not([type='radio'], [type='checkbox'])");
  return {
    here: focused && stops.includes(focused) ? name(focused) : field ? document.activeElement.name
      : document.activeElement.matches(".split__ask") ? name(stops.find((stop) => !stop.querySelector("input:checked"))) : null,
    field,
    empty: field && !document.activeElement.value,
    open: stops.filter((stop) => !stop.querySelector("input:checked")).map(name),
    rest: [...document.querySelectorAll("[data-rest]")].find(seen)?.dataset.key ?? null,
    cited: !document.querySelector("#evidence")?.checkVisibility() ||
      document.querySelector("[data-rows='citation'] [name$='.reference']")?.value,
    refused: document.querySelectorAll("[data-answers] .problem[role='alert']").length,
  };
}"""


# Resolves once the text is in the field and the page has reacted to the paste, as the page set its
# timer before this one.
PASTE_DONE_JS = """(name) => new Promise((done) => {
  const [field] = document.getElementsByName(name), end = performance.now() + 5000;
  const look = () => setTimeout(field.value || performance.now() > end ? done : look);
  look();
})"""


@dataclass
class Keyboard:
    """A keyboard that counts keys and stops."""

    page: "Page"
    digits: dict[str, int]
    keys: int = 0
    stops: set[str] = field(default_factory=set)
    failed: int = 0
    pressed: list[str] = field(default_factory=list)

    def press(self, key: str) -> None:
        self.keys += 1
        self.pressed.append(key)
        self.page.keyboard.press(key)

    def paste(self, text: str, where: str) -> None:
        self.stops.add(where)
        self.page.evaluate("(text) => navigator.clipboard.writeText(text)", text)
        self.press("Control+V")
        self.page.evaluate(PASTE_DONE_JS, where)

    def wait_for_focus(self) -> None:
        """Wait until the page has set the focus: on a busy machine, keys have no effect before.

        Raises RuntimeError.
        """
        for _try in range(100):
            if self.page.evaluate("document.activeElement !== document.body"):
                return
            self.page.wait_for_timeout(50)
        raise RuntimeError(f"nothing has the focus on {self.page.url}")

    def page_state(self) -> dict[str, Any]:
        return dict(self.page.evaluate(PAGE_STATE_JS))

    def digit(self, name: str) -> str:
        if name in self.digits:
            return str(self.digits[name])
        return "2" if name.startswith("harm.") or name.endswith(".severity") else "1"

    def answer(self, *, only: Sequence[str] | None = None) -> None:
        """Answer all open groups, in the order of the page."""
        for _step in range(MAX_STEPS):
            state = self.page_state()
            pending = [name for name in state["open"] if only is None or name in only]
            if state["field"] and (state["here"] or "").startswith("citation."):
                self._cite(state["here"], state["empty"])
            elif not pending and (state["cited"] or only is not None):
                return
            elif not pending:
                self.press("e")
            elif state["here"] in pending and state["rest"] and state["here"].startswith("rubric."):
                self.stops.add("rest")
                self.press(state["rest"])
            elif state["here"] in pending:
                self.stops.add(state["here"])
                self.press(self.digit(state["here"]))
            else:
                self.press("Escape" if state["field"] else "n")
        raise RuntimeError(f"lost at {self.page_state()}")

    def _cite(self, name: str, empty: bool) -> None:
        part = name.rpartition(".")[2]
        if empty:
            has_level = self.page.locator('[name="citation.1.level"]').count()
            reference = SOURCE if has_level else STUDY
            self.paste({"reference": reference, "section": "2.1", "passage": PASSAGE}[part], name)
        if self.page_state()["here"] != name:
            return
        self.press("Tab" if part == "reference" else "Escape")

    def submit(self) -> bool:
        """Press Submit or Reveal; returns whether the page accepted the answers."""
        with self.page.expect_navigation():
            self.press("Control+Enter")
        self.page.wait_for_load_state()
        refused = bool(self.page_state()["refused"]) if self.page.locator("[data-answers]").count() else False
        self.failed += refused
        return not refused


def _problems(page: "Page") -> str:
    return str(page.locator(".problem[aria-labelledby]").inner_text())


def _answer_and_submit(keyboard: Keyboard) -> None:
    keyboard.wait_for_focus()
    keyboard.answer()
    if not keyboard.submit():
        raise RuntimeError(f"sent back: {_problems(keyboard.page)}")


def _mhb(keyboard: Keyboard) -> None:
    _answer_and_submit(keyboard)  # the first look
    _answer_and_submit(keyboard)


def _confirm(keyboard: Keyboard) -> None:
    keyboard.page.wait_for_timeout(700)  # as a person needs time to read
    with keyboard.page.expect_navigation():
        keyboard.press("Control+Enter")


def _adjudicate(keyboard: Keyboard) -> None:
    _answer_and_submit(keyboard)  # the first look
    keyboard.page.wait_for_timeout(700)
    _answer_and_submit(keyboard)


def _newcomer(keyboard: Keyboard) -> None:
    """By mouse: answer only required fields and submit; fix what is rejected and try again."""
    page = keyboard.page
    for step in ("first look", "whole"):
        for _attempt in range(6):
            _fill_required(keyboard)
            if keyboard.submit():
                break
        else:
            raise RuntimeError(f"{step}: {_problems(page)}")


def _fill_required(keyboard: Keyboard) -> None:
    page = keyboard.page
    for _round in range(MAX_STEPS):
        target = page.evaluate(
            """() => {
              const form = document.querySelector("[data-answers]");
              const seen = (one) => one.checkVisibility();
              const asks = (one) => one.required || one.getAttribute("aria-invalid") === "true";
              for (const one of [...form.elements].filter((one) => one.name && seen(one) && asks(one))) {
                if (one.type === "radio" || one.type === "checkbox") {
                  if (!form.querySelector(`[name="${one.name}"]:checked`)) return ["radio", one.name];
                } else if (!one.value.trim() || (one.getAttribute("aria-invalid") === "true" && !one.dataset.met)) {
                  one.dataset.met = "";
                  return ["field", one.name];
                }
              }
              const evidence = form.querySelector("#citations-error");
              if (evidence && !form.querySelector("[data-rows='citation'] > [data-row]")) return ["row", ""];
              return null;
            }"""
        )
        if target is None:
            return
        kind, name = target
        if kind == "row":
            page.locator("#add-citation").click()
        elif kind == "field":
            text = SOURCE if name.endswith(".reference") else "2.1" if name.endswith(".section") else PASSAGE
            page.locator(f'[data-answers] [name="{name}"]').fill(text)
        else:
            page.locator(f'[data-answers] [name="{name}"]').nth(int(keyboard.digit(name)) - 1).evaluate(
                "(one) => one.click()"
            )
    raise RuntimeError("what is required never ends")


SCRIPTS: dict[str, Callable[[Keyboard], None]] = {
    "MHB primary": _mhb,
    "MedHallu primary": _answer_and_submit,
    "ClinHallu primary": _answer_and_submit,
    "MedHal primary": _answer_and_submit,
    "MedMistake primary": _answer_and_submit,
    "confirmation": _confirm,
    "adjudication": _adjudicate,
    "newcomer": _newcomer,
}


def walk(page: "Page", url: str, name: str, held: dict[str, Any]) -> Keyboard:
    """Work on one case with its script; raises RuntimeError if the script gets stuck."""
    page.context.clear_cookies()
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.context.add_cookies([{"name": held["cookie"]["name"], "value": held["cookie"]["value"], "url": url}])
    page.goto(f"{url}/review/assignments/{held['assignment']}/")
    keyboard = Keyboard(page, held["digits"])
    SCRIPTS[name](keyboard)
    return keyboard


def results(keyboards: dict[str, Keyboard]) -> Iterator[Result]:
    for name, keyboard in keyboards.items():
        if name == "newcomer":
            yield exactly("keyboard, newcomer: submits sent back", keyboard.failed, "", 0)
            continue
        keys, stops = GOALS[name]
        yield at_most(f"keyboard, {name}: keys", keyboard.keys, "", keys)
        if stops:
            yield at_most(f"keyboard, {name}: stops", len(keyboard.stops), "", stops)


def measure() -> Iterator[Result]:
    """Run all scripts on an embedded site; missing programs are reported as skipped."""
    try:
        from playwright.sync_api import sync_playwright

        executable = servers.chromium()
    except ImportError:
        yield skipped("keyboard", "playwright is not installed")
        return
    except servers.Missing as missing:
        yield skipped("keyboard", str(missing))
        return
    with tempfile.TemporaryDirectory(prefix="mhb-keys-") as home:
        environment = {"MHB_DATA_DIR": str(Path(home)), **sites.EMBEDDED}
        sites.manage(environment, "migrate", "-v0")
        prepared = sites.run_module(["-m", "bench.keystrokes", "--prepare"], environment)
        family, port = children.Children(cwd=str(sites.ROOT), environment=environment), servers.free_port()
        try:
            family.start("web", children.web(sites.HOST, port))
            if not children.wait_for_port(sites.HOST, port):
                raise RuntimeError("the site does not start")
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
                page = browser.new_page(viewport={"width": 1366, "height": 768})
                keyboards = {
                    name: walk(page, f"http://{sites.HOST}:{port}", name, held) for name, held in prepared.items()
                }
                browser.close()
        finally:
            family.stop()
    yield from results(keyboards)


def main() -> int:
    if "--prepare" in sys.argv:
        os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mhb_site.settings")
        django.setup()
        print(json.dumps(prepare()))
        return 0
    print(table(list(measure())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
