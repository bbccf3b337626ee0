"""Keys and stops that one review takes, counted in a real Chromium: `python -m bench.keystrokes`.

Each script works one case by keyboard as somebody does who knows the page. A chord and a paste are one key each; a stop is a
group of answers or a field into which something was entered. The newcomer answers what the page marks as required, and nothing
else; the submits that are sent back are counted.
"""

import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import django

from bench import servers, sites
from bench.core import Result, at_most, exactly, skipped, table
from mhb_site.server import children

if TYPE_CHECKING:
    from playwright.sync_api import Page

RUBRICS = 9
SOURCE = "10.1000/invented.2020.1"
PASSAGE = "There is no such drug."
GOALS = {"MHB primary": (24, 12), "MedHallu primary": (8, None), "confirmation": (1, None), "adjudication": (8, None)}
STEPS = 80  # a script that needs more is lost


# The cases ------------------------------------------------------------------------------------------------------------


def prepare() -> dict[str, Any]:
    """One case a script, held by its own physician; what `walk` must know of each. The database is migrated and empty."""
    from bench.cases import medhallu_spec, whole_spec
    from review.assignments import services
    from review.rules.case_spec import CaseSpec

    def held(name: str, spec: CaseSpec, *before: Callable[[Any], None]) -> dict[str, Any]:
        case = services.open_case(spec)
        for step in before:
            step(case)
        physician, session = _account(name)
        return {"session": session, "assignment": _take(physician).public_id, "digits": _digits(spec)}

    found = {"MHB primary": held("primary", whole_spec(1, RUBRICS))}
    found["newcomer"] = held("newcomer", whole_spec(5, RUBRICS))
    found["MedHallu primary"] = held("medhallu", medhallu_spec(2))
    found["confirmation"] = held("confirming", whole_spec(3, RUBRICS), _reviewed)
    _submit(_user("confirming"), changed=False)
    found["adjudication"] = held("adjudicating", whole_spec(4, RUBRICS), _reviewed, _disputed)
    return found


def _user(name: str) -> Any:
    from review.models import User

    return User.objects.get(username=name)


def _account(name: str) -> tuple[Any, str]:
    from bench.seed import sign_in

    session = sign_in(name, "physician")
    return _user(name), session


def _take(physician: Any) -> Any:
    from review.assignments import claims

    taken = claims.claim_next(physician)
    if taken is None:
        raise RuntimeError(f"nothing for {physician}")
    return taken


def _reviewed(case: Any) -> None:
    primary, _session = _account(f"primary-{case.pk}")
    _take(primary)
    _submit(primary, changed=False)


def _disputed(case: Any) -> None:
    """A second review that differs in three things: a question, a rubric, and so the verdict."""
    secondary, _session = _account(f"secondary-{case.pk}")
    _take(secondary)
    for _phase in ("commit", "confirm"):
        _submit(secondary, changed=True)


def _submit(physician: Any, *, changed: bool) -> None:
    """Complete answers of a case's holder, after the first look; a secondary's are the committed ones."""
    from dataclasses import replace

    from review.access import visibility
    from review.assignments import first_look, services
    from review.rules.questions import Answer, Answers, Citation, RubricAnswer

    assignment = visibility.current_assignments(physician).get()
    token = assignment.token
    if token is None:
        raise RuntimeError(f"{assignment} is held without a token")
    form = assignment.case.frozen.form
    good = {question.key: next(c for c in reversed(question.choices) if not c.blocks) for question in form.questions}
    answers = Answers(
        questions={key: Answer(choice.value) for key, choice in good.items()},
        rubrics={rubric.key: RubricAnswer("adequate", severity="mild") for rubric in form.rubrics},
        citations=(Citation("doi", SOURCE, "", PASSAGE, "2020-01-15"),),
        verdict="approve",
    )
    if changed:
        blocked = next(c for c in form.questions[3].choices if c.blocks)
        last = form.rubrics[-1].key
        answers = replace(
            answers,
            questions={**answers.questions, form.questions[3].key: Answer(blocked.value, "It contradicts itself.")},
            rubrics={**answers.rubrics, last: RubricAnswer("removed", note="It says nothing new.")},
            verdict="reject",
            reason="It can be spotted.",
            reason_code=form.reasons[0].code,
        )
    if not visibility.is_revealed(physician, assignment):
        first_look.reveal(physician, assignment.pk, token, answers)
    services.submit(physician, assignment.pk, token, answers)


def _digits(spec: Any) -> dict[str, int]:
    """Which answer a script gives to each question: the last that does not stand in the way."""
    return {
        f"question.{question.key}": max(n for n, choice in enumerate(question.choices, 1) if not choice.blocks)
        for question in spec.form.questions
    }


# The hands ------------------------------------------------------------------------------------------------------------

# The group or field in focus, and what is still to be answered.
LOOK = """() => {
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


# Over once the text is there, and what the page does after a paste: it has set its timer before this one.
PASTED = """(name) => new Promise((done) => {
  const [field] = document.getElementsByName(name), end = performance.now() + 5000;
  const look = () => setTimeout(field.value || performance.now() > end ? done : look);
  look();
})"""


@dataclass
class Hands:
    """A keyboard that counts."""

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
        self.page.evaluate(PASTED, where)

    def arrive(self) -> None:
        """Wait until the page has given something the focus: on a busy machine no key acts before. Raises RuntimeError."""
        for _try in range(100):
            if self.page.evaluate("document.activeElement !== document.body"):
                return
            self.page.wait_for_timeout(50)
        raise RuntimeError(f"nothing has the focus on {self.page.url}")

    def look(self) -> dict[str, Any]:
        return dict(self.page.evaluate(LOOK))

    def digit(self, name: str) -> str:
        if name in self.digits:
            return str(self.digits[name])
        return "2" if name.startswith("harm.") or name.endswith(".severity") else "1"

    def answer(self, *, only: Sequence[str] | None = None) -> None:
        """Answer whatever is open, in the order of the page."""
        for _step in range(STEPS):
            seen = self.look()
            asked = [name for name in seen["open"] if only is None or name in only]
            if seen["field"] and (seen["here"] or "").startswith("citation."):
                self._cite(seen["here"], seen["empty"])
            elif not asked and (seen["cited"] or only is not None):
                return
            elif not asked:
                self.press("e")
            elif seen["here"] in asked and seen["rest"] and seen["here"].startswith("rubric."):
                self.stops.add("rest")
                self.press(seen["rest"])
            elif seen["here"] in asked:
                self.stops.add(seen["here"])
                self.press(self.digit(seen["here"]))
            else:
                self.press("Escape" if seen["field"] else "n")
        raise RuntimeError(f"lost at {self.look()}")

    def _cite(self, name: str, empty: bool) -> None:
        part = name.rpartition(".")[2]
        if empty:
            self.paste({"reference": SOURCE, "section": "2.1", "passage": PASSAGE}[part], name)
        if self.look()["here"] != name:
            return
        self.press("Escape" if part == "passage" else "Tab")

    def submits(self) -> bool:
        """Press Submit, or Reveal; whether it was taken."""
        with self.page.expect_navigation():
            self.press("Control+Enter")
        self.page.wait_for_load_state()
        refused = bool(self.look()["refused"]) if self.page.locator("[data-answers]").count() else False
        self.failed += refused
        return not refused


def _problems(page: "Page") -> str:
    return str(page.locator(".problem[aria-labelledby]").inner_text())


def _goes(hands: Hands) -> None:
    hands.arrive()
    hands.answer()
    if not hands.submits():
        raise RuntimeError(f"sent back: {_problems(hands.page)}")


def _mhb(hands: Hands) -> None:
    _goes(hands)  # the first look
    _goes(hands)


def _confirm(hands: Hands) -> None:
    hands.page.wait_for_timeout(700)  # nobody reads faster
    with hands.page.expect_navigation():
        hands.press("Control+Enter")


def _adjudicate(hands: Hands) -> None:
    _goes(hands)  # the first look
    hands.page.wait_for_timeout(700)
    _goes(hands)


def _newcomer(hands: Hands) -> None:
    """By mouse: what is marked as required is answered, then Submit; what is sent back is answered and sent again."""
    page = hands.page
    for step in ("first look", "whole"):
        for _attempt in range(6):
            _fill_required(hands)
            if hands.submits():
                break
        else:
            raise RuntimeError(f"{step}: {_problems(page)}")


def _fill_required(hands: Hands) -> None:
    page = hands.page
    for _round in range(STEPS):
        todo = page.evaluate(
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
        if todo is None:
            return
        kind, name = todo
        if kind == "row":
            page.locator("#add-citation").click()
        elif kind == "field":
            text = SOURCE if name.endswith(".reference") else "2.1" if name.endswith(".section") else PASSAGE
            page.locator(f'[data-answers] [name="{name}"]').fill(text)
        else:
            page.locator(f'[data-answers] [name="{name}"]').nth(int(hands.digit(name)) - 1).evaluate(
                "(one) => one.click()"
            )
    raise RuntimeError("what is required never ends")


SCRIPTS: dict[str, Callable[[Hands], None]] = {
    "MHB primary": _mhb,
    "MedHallu primary": _goes,
    "confirmation": _confirm,
    "adjudication": _adjudicate,
    "newcomer": _newcomer,
}


def walk(page: "Page", url: str, name: str, told: dict[str, Any]) -> Hands:
    """Work one case by its script; raises RuntimeError where the script cannot go on."""
    page.context.clear_cookies()
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.context.add_cookies([{"name": "sessionid", "value": told["session"], "url": url}])
    page.goto(f"{url}/review/assignments/{told['assignment']}/")
    hands = Hands(page, told["digits"])
    SCRIPTS[name](hands)
    return hands


def results(walked: dict[str, Hands]) -> Iterator[Result]:
    for name, hands in walked.items():
        if name == "newcomer":
            yield exactly("keyboard, newcomer: submits sent back", hands.failed, "", 0)
            continue
        keys, stops = GOALS[name]
        yield at_most(f"keyboard, {name}: keys", hands.keys, "", keys)
        if stops:
            yield at_most(f"keyboard, {name}: stops", len(hands.stops), "", stops)


def measure() -> Iterator[Result]:
    """All scripts before an embedded site; what is not installed is a row that says so."""
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
        told = sites.told_by(["-m", "bench.keystrokes", "--prepare"], environment)
        family, port = children.Children(cwd=str(sites.ROOT), environment=environment), servers.free_port()
        try:
            family.start("web", [*children.web(sites.HOST, port), "--workers", "1"])
            if not children.wait_for_port(sites.HOST, port):
                raise RuntimeError("the site does not start")
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
                page = browser.new_page(viewport={"width": 1366, "height": 768})
                walked = {name: walk(page, f"http://{sites.HOST}:{port}", name, known) for name, known in told.items()}
                browser.close()
        finally:
            family.stop()
    yield from results(walked)


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
