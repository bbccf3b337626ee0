// The answer panel: required fields, navigation between questions, and one check before submitting.
// A stop is a group of answers that keys lead to. Keys only act while the answer panel has the
// focus.

const $ = (selector, within = document) => within.querySelector(selector);
const $$ = (selector, within = document) => [...within.querySelectorAll(selector)];
const form = $("[data-answers]");
const panel = form.closest(".split__ask");
const visible = (element) => element.checkVisibility();
const typing = (element) =>
  element.isContentEditable || element.matches?.("textarea, select, input:not([type='radio'], [type='checkbox'])");
const FIELDS = "textarea, select, input:not([type='radio'], [type='checkbox'], [type='hidden'])";
// Milliseconds around a key press within which a letter that is no key means that somebody is
// typing text.
const TYPING_WINDOW = 1000;
const MIN_READ_TIME = 600; // milliseconds: nobody has read a page that was loaded more recently

// What an answer requires and whether it rules out approval is the server's to say (data-wants,
// data-blocks; review/rules/questions.py). A question that is not asked requires nothing.
const isAsked = (element) => !element.closest("[data-when][hidden]");
const isStarted = (row) => $$("input[type='text'], textarea", row).some((field) => field.value.trim());
const valueOf = (name) => $(`[name="${CSS.escape(name)}"]:checked`, form)?.value;
const changeReason = $("#change-reason", form);

function isWanted(element) {
  const wanted = element.dataset.wanted.split(" ");
  if (wanted.includes("change")) return true; // shown only if it is
  const group = element.closest(".question");
  return wanted.some((name) => $(`[data-wants~="${name}"]:checked`, group) && !(name === "dissent" && isSaidBelow(element)));
}

// The reason for a change may also say why a rejected case is approved.
const isSaidBelow = (element) => element.name === "reason" && Boolean(changeReason?.value.trim());

function updateRequired() {
  for (const element of $$("[data-wanted]:not([name^='citation.'])", form)) {
    const yes = isWanted(element);
    for (const field of element.matches("[data-stop]") ? $$("input", element) : [element]) field.required = yes;
    if (element.matches(FIELDS)) label(element);
  }
  const wantsSource = $$('[data-wants~="evidence"]:checked', form).some(isAsked);
  for (const [number, row] of $$(".evidence [data-rows] > [data-row]", form).entries()) requireSource(row, isStarted(row) || (number === 0 && wantsSource));
  for (const row of $$("[data-rows='added'] > [data-row]", form)) {
    const yes = isStarted(row);
    for (const box of $$(".tags input", row).slice(0, 1)) box.required = yes;
    for (const field of $$(".severity input", row)) field.required = yes;
  }
  for (const harm of $$("[data-harm]", form)) requireHarm(harm);
  const agreed = $("#agreed", form);
  if (agreed) agreed.required = $$(".agreed details [data-stop]", form).some((stop) => $$("input", stop).every((one) => one.checked === one.defaultChecked));
  const blocked = $("[data-blocked]", form);
  if (!blocked) return;
  blocked.textContent = obstacle();
  blocked.hidden = !blocked.textContent;
}

function requireSource(row, yes) {
  const part = (name) => $(`[name$=".${name}"]`, row);
  for (const name of ["reference", "passage", "read_on", "trap", "level"]) {
    const field = part(name);
    if (!field) continue;
    field.required = yes;
    if (name === "passage") label(field);
  }
  part("kind").required = yes && Boolean(part("reference").value.trim()); // it mostly follows from it
  part("section").required = yes && ["guideline", "book"].includes(part("kind").value);
}

// The harm of a trap counts for each of its rubrics that is kept and has no harm of its own.
function requireHarm(harm) {
  const names = harm.dataset.harm.split(" ").filter((name) => isAsked($(`[name="${CSS.escape(name)}"]`, form)));
  const kept = names.filter((name) => !["inadequate", "removed"].includes(valueOf(name)));
  harm.hidden = kept.length === 0;
  const required = kept.some((name) => valueOf(`${name}.severity`) === undefined);
  for (const field of $$("input", harm)) field.required = required;
}

// Why the case cannot be approved, or "".
function obstacle() {
  const words = $("[data-blocked]", form)?.dataset;
  const answers = $$("[data-blocks]:checked, .given [data-blocks]", form).filter(isAsked);
  if (answers.length) return words.because.replace("{names}", answers.map(title).join(" · "));
  const rubrics = $$(".rubric", form).filter(isAsked);
  const removed = rubrics.filter((rubric) => $("[data-stop] input[value='removed']:checked", rubric));
  const added = $$("[data-rows='added'] > [data-row]", form).some(isStarted);
  return rubrics.length && removed.length === rubrics.length && !added ? words.noneLeft : "";
}

// What a field without a label of its own says in its place.
function label(field) {
  field.dataset.label ??= field.placeholder;
  field.placeholder = [field.dataset.label, field.required && field.dataset.label && form.dataset.required].filter(Boolean).join(" · ");
}

const checkedOption = (stop) => $("input:checked", stop);
const isUnchanged = (field) => field.dataset.original !== undefined && field.value.trim() === field.dataset.original.trim();

function isEmpty(element) {
  if (!element.matches("[data-stop]")) return element.required && (!element.value.trim() || isUnchanged(element));
  const chosen = checkedOption(element);
  if (chosen?.matches(".verdict__pick--approve")) return Boolean(obstacle());
  return Boolean($("input", element)?.required) && !chosen;
}

const stops = () => $$("[data-stop]", form).filter(visible);
const openElements = () => $$(`[data-stop], ${FIELDS}`, form).filter((element) => visible(element) && isEmpty(element));

// Navigation.
let lastStop = null;

function showQuestions() {
  if (!visible(form)) $("#split-ask").checked = true;
}

function stopInFocus() {
  const here = document.activeElement.closest?.("[data-stop]");
  if (here && form.contains(here)) lastStop = here;
  const question = document.activeElement.closest?.(".question");
  if (!here && question && form.contains(question) && !question.contains(lastStop)) lastStop = $("[data-stop]", question) ?? lastStop;
  return lastStop && lastStop.isConnected && visible(lastStop) ? lastStop : null;
}

function visit(element) {
  const stop = element.matches("[data-stop]");
  if (stop) lastStop = element;
  const target = stop ? (checkedOption(element) ?? $("input", element)) : element;
  target.focus({ preventScroll: true });
  const whole = element.closest(".severity, .source, .question") ?? element;
  // If it does not fit, show its beginning, the question. The text beside the panel does not
  // scroll. Above a source, what it is about stays in view.
  if (whole.offsetHeight > panel.clientHeight / 2 && !whole.matches(".source")) panel.scrollTop += whole.getBoundingClientRect().top - panel.getBoundingClientRect().top;
  else whole.scrollIntoView({ block: "nearest" });
  element.scrollIntoView({ block: "nearest" });
}

function step(by) {
  showQuestions();
  const all = stops();
  const now = all.indexOf(stopInFocus());
  const next = all[now < 0 ? (by > 0 ? 0 : all.length - 1) : Math.min(Math.max(now + by, 0), all.length - 1)];
  if (next) visit(next);
}

// After a choice, go to the next open stop, or else the first one. Without any, stay.
function advance(from) {
  const pending = openElements();
  const next = pending.find((one) => from.compareDocumentPosition(one) & Node.DOCUMENT_POSITION_FOLLOWING) ?? pending[0];
  if (next) visit(next);
  return Boolean(next);
}

const loaded = performance.now();
let lastChoice = null; // the last answer chosen by a digit, and the previous state

function choose(digit) {
  showQuestions();
  const stop = stopInFocus() ?? stops().find(isEmpty) ?? stops()[0];
  const option = stop && $$("input", stop)[digit - 1];
  if (!option) return false;
  const several = stop.hasAttribute("data-several");
  lastChoice = { option, before: several ? option.checked && option : checkedOption(stop), at: performance.now() };
  lastStop = stop;
  option.focus();
  option.click();
  if (!several) advance(stop); // with several choices, another may follow: `n` moves on
  return true;
}

// A letter that is no key means that text is being typed outside of any field. Keys are ignored
// until the typing ends, and an answer chosen just before is undone. In the capturing phase, to run
// before app.js.
let lastTyped = -TYPING_WINDOW;

document.addEventListener(
  "keydown",
  (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key.length > 1 || event.isComposing || typing(event.target) || !panel.contains(event.target)) return;
    const pressed = window.mhbCharacter(event);
    if (pressed === "g" || document.documentElement.classList.contains("going")) return; // to another page
    const now = performance.now();
    const isSoon = lastChoice && now - lastChoice.at < TYPING_WINDOW;
    const digit = /^[1-9? ]$/.test(pressed);
    const isKey = digit || $$(`[data-key="${CSS.escape(window.mhbKeyOf(pressed))}"]`, document).some(visible);
    // A letter so soon after a verdict is never a key.
    const verdict = isSoon && lastChoice.option.name === "verdict" && !digit;
    if (isKey && !verdict && now - lastTyped > TYPING_WINDOW && !(isSoon && event.key === " ")) return;
    if (!isKey || verdict || now - lastTyped <= TYPING_WINDOW) lastTyped = now;
    if (isSoon && (!isKey || verdict)) undoChoice();
    event.preventDefault();
    event.stopPropagation();
  },
  { capture: true },
);

function undoChoice() {
  const { option, before } = lastChoice;
  lastChoice = null;
  if (before) before.checked = true;
  else option.checked = false;
  option.dispatchEvent(new Event("input", { bubbles: true }));
  visit(option.closest("[data-stop]"));
  const note = $("[data-typed-note]", form);
  note.textContent = form.dataset.typed;
  note.hidden = false;
}

for (const button of $$("[data-step]", form)) button.addEventListener("click", () => step(Number(button.dataset.step)));

// Mouse and touch advance to the next question, too. Arrow keys choose within a group without
// leaving it.
form.addEventListener("click", (event) => {
  if (event.detail && event.target.matches("[data-stop]:not([data-several]) input")) setTimeout(() => advance(event.target.closest("[data-stop]")));
});

form.addEventListener("click", (event) => {
  if (!event.target.closest("[data-rest]")) return;
  event.preventDefault();
  for (const option of $$(".rubric [data-stop] input[value='adequate']", form)) {
    if (checkedOption(option.closest("[data-stop]"))) continue;
    option.checked = true;
    option.dispatchEvent(new Event("change", { bubbles: true }));
  }
  form.dispatchEvent(new Event("input"));
  advance(event.target);
});

document.addEventListener("keydown", (event) => {
  // Keys belong to the input method while it composes (Chinese); older browsers report 229.
  if (event.isComposing || event.keyCode === 229 || $("dialog[open]")) return;
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape") {
    if (event.defaultPrevented) return;
    if (event.target.matches(".code__mark")) event.target.blur();
    // Out of a field to its own question, or on to the next one if this one is complete.
    const inField = typing(event.target) && form.contains(event.target);
    const question = inField && event.target.closest(".question");
    if (question && !openElements().some((one) => question.contains(one)) && advance(event.target)) return;
    if (inField || !panel.contains(event.target)) (stopInFocus() ? visit(stopInFocus()) : panel.focus());
    return;
  }
  if (event.defaultPrevented || typing(event.target) || !panel.contains(event.target)) return;
  if (document.body.dataset.keys === "off") return;
  const pressed = window.mhbCharacter(event);
  if (/^[1-9]$/.test(pressed) && choose(Number(pressed))) event.preventDefault();
});

// Progress.
const progress = $("[data-steps]", form);

// Questions are counted, not their fields, whose number grows with the answers. A question that may
// not be asked counts from the start, so that the total stays the same; it is done once that is known.
function isOutstanding(question, open) {
  if (!question.hidden) return open.some((element) => question.contains(element));
  const { when } = question.dataset;
  return !valueOf(when) && !$(`[data-given="${CSS.escape(when)}"]`);
}

function updateProgress() {
  const asks = (question) => $("[data-stop] :required, textarea:required", question) && (visible(question) || question.hidden);
  const all = $$(".question", form).filter(asks);
  const open = openElements();
  progress.hidden = all.length === 0 || !visible(form);
  $("[data-answered]", progress).textContent = `${all.filter((one) => !isOutstanding(one, open)).length}/${all.length}`;
}

// An error disappears once it is corrected, and the summary with the last one.
function errorOf(element) {
  const field = element.matches("[data-stop]") ? $("input", element) : element;
  const name = field.id.replace(/-\d+$/, "");
  const ids = [`${field.id}-error`, `${name}-error`, `${field.id}-form`];
  return ids.map((id) => document.getElementById(id)).find(Boolean);
}

function clearError(target) {
  const stop = target.closest?.("[data-stop]");
  const element = stop ?? target;
  if (!element.matches?.(`[data-stop], ${FIELDS}, select`) || isEmpty(element)) return;
  const controls = stop ? $$("input", stop) : [element];
  const [field] = controls;
  if (element.name?.startsWith("citation.")) $("#citations-error", form)?.remove();
  if (field.getAttribute("aria-invalid") !== "true") return summarise();
  errorOf(element)?.remove();
  for (const control of controls) {
    control.removeAttribute("aria-invalid");
    control.removeAttribute("aria-describedby");
  }
  for (const question of $$(".question--missing", form)) {
    if (!$("[aria-invalid='true'], .errorlist", question)) question.classList.remove("question--missing");
  }
  summarise();
}

function summarise() {
  const summary = $("[data-problems]", form);
  if (!summary) return;
  for (const link of $$("li a", summary)) {
    const at = document.getElementById(link.hash.slice(1));
    const invalid = at && (at.getAttribute("aria-invalid") === "true" || (at.closest(".evidence") && $("#citations-error", form)));
    if (at && at !== form && !invalid) link.closest("li").remove();
  }
  if (!$("li", summary)) summary.remove();
}

function changed(event) {
  updateRequired();
  updateProgress();
  if (event.target !== form) clearError(event.target);
  const note = $("[data-typed-note]", form);
  if (lastChoice) note.hidden = true;
}

// Before submitting, list everything that is missing and focus the first of it.
function title(element) {
  const group = element.closest(".rubric, fieldset, .question");
  const names = [group.dataset.title ?? textOf($("legend, .question__title", group))];
  // Of several fields in a group, which one.
  if (element.matches("textarea, select, input:not([type=radio])")) names.push(textOf(element.labels?.[0]));
  return names.filter(Boolean).join(" · ") || element.name;
}

function textOf(named) {
  if (!named) return "";
  const copy = named.cloneNode(true);
  for (const part of $$("[data-required-mark], .code__about, [hidden]", copy)) part.remove();
  return copy.textContent.replace(/\s+/g, " ").trim();
}

function whatIsMissing(element) {
  if (element.dataset.missing) return element.dataset.missing;
  if (element.matches("[data-stop], select")) return form.dataset.choose;
  return element.value.trim() ? form.dataset.unchanged : form.dataset.fill;
}

function showErrors(missing) {
  $("[data-problems]", form)?.remove();
  const summary = $("[data-problems-blank]", form).content.firstElementChild.cloneNode(true);
  for (const element of missing) {
    const stop = element.matches("[data-stop]");
    const controls = stop ? $$("input", element) : [element];
    const contradicts = stop && checkedOption(element);
    const sentence = contradicts ? obstacle() : whatIsMissing(element);
    const id = `${controls[0].id}-error`;
    if (!errorOf(element)) {
      const list = document.createElement("ul");
      list.className = "errorlist";
      list.id = id;
      list.append(Object.assign(document.createElement("li"), { textContent: sentence }));
      element.after(list);
    }
    for (const control of controls) {
      control.setAttribute("aria-invalid", "true");
      control.setAttribute("aria-describedby", errorOf(element).id);
    }
    element.closest(".question")?.classList.add("question--missing");
    const line = document.createElement("li");
    line.append(Object.assign(document.createElement("a"), { href: `#${controls[0].id}`, textContent: title(element) }), form.dataset.colon + sentence);
    $("ul", summary).append(line);
  }
  form.insertBefore(summary, $("[data-typed-note]", form));
}

// Before workbench.js counts it as sent.
form.addEventListener(
  "submit",
  (event) => {
    const button = event.submitter;
    if (form.hasAttribute("data-agreed") && performance.now() - loaded < MIN_READ_TIME) {
      event.preventDefault(); // a second press of the key on the previous page
      event.stopImmediatePropagation();
      return;
    }
    if (button?.hasAttribute("formaction") || ["do", "sign"].includes(button?.name)) return;
    updateRequired();
    const missing = openElements();
    if (!missing.length) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    showErrors(missing);
    showQuestions();
    visit(missing[0]);
    missing[0].scrollIntoView({ block: "center" }); // clear of the bar with Submit
  },
  { capture: true },
);

updateRequired();
updateProgress();
form.addEventListener("input", changed);
for (const tab of $$(".split__pick")) tab.addEventListener("change", updateProgress);
form.addEventListener("change", changed);
form.addEventListener("answered", (event) => advance(event.detail)); // another module has filled in a field

// Focus the panel so that keys act at once, unless an error from the server has or gets the focus.
if (document.activeElement === document.body && visible(panel)) ($("[autofocus]", form) ?? panel).focus({ preventScroll: true });
if (form.contains(document.activeElement)) document.activeElement.scrollIntoView({ block: "center" });
