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
const FIELDS = "textarea, input:not([type='radio'], [type='checkbox'], [type='hidden'])";
// Milliseconds around a key press within which a letter that is no key means that somebody is
// typing text.
const TYPING_WINDOW = 1000;
const MIN_READ_TIME = 600; // milliseconds: nobody has read a page that was loaded more recently

// The answers decide what is required: a note for a problem, a source for an answer that needs one,
// and the harm of a trap unless all of its rubrics are inadequate or removed.
const isWanted = (element) =>
  element.dataset.wanted.split(" ").some((name) => $(`[data-wants~="${name}"]:checked`, element.closest(".question")));

function updateRequired() {
  for (const element of $$("[data-wanted]", form)) {
    const yes = isWanted(element) && (element.name?.startsWith("citation.") ? isFirstOrStarted(element) : true);
    for (const field of element.matches("[data-stop]") ? $$("input", element) : [element]) field.required = yes;
    if (element.matches(FIELDS)) label(element);
  }
  const change = $("#change-reason", form);
  if (change) change.required = isChanged();
  const blocked = $("[data-blocked]", form);
  if (blocked) blocked.hidden = !isBlocked();
  for (const harm of $$("[data-harm]", form)) {
    const values = harm.dataset.harm.split(" ").map((name) => $(`[name="${CSS.escape(name)}"]:checked`, form)?.value);
    const isRequired = values.some((value) => !["inadequate", "removed"].includes(value));
    harm.hidden = !isRequired;
    for (const field of $$("input", harm)) field.required = isRequired;
  }
}

// An answer that rules out approval, and a confirmed answer that is not what was committed.
const isBlocked = () => $$("[data-stop] input:checked", form).some((one) => one.dataset.wants?.split(" ").includes("note") || one.value === "inadequate" && one.closest(".rubric"));
const isChanged = () => $$("[data-stop] input", form).some((one) => one.checked !== one.defaultChecked && !one.closest("[data-uncompared]"));

// What a field without a label of its own says in its place.
function label(field) {
  field.dataset.label ??= field.placeholder;
  const parts = [field.dataset.label, field.required && field.dataset.label && form.dataset.required, field === guarded && form.dataset.enter];
  field.placeholder = parts.filter(Boolean).join(" · ");
}

// A field that the page moved to by itself takes letters only after Enter or a click, so that the
// digit for the next answer does not land in it. A paste and composed text are meant for it.
let guarded = null;

function guard(field) {
  guarded = field;
  if (!field) return;
  field.dataset.guarded = "";
  label(field);
  const release = () => {
    if (guarded === field) guarded = null;
    delete field.dataset.guarded;
    label(field);
    for (const name of ["pointerdown", "paste", "drop", "compositionstart", "blur"]) field.removeEventListener(name, release);
  };
  for (const name of ["pointerdown", "paste", "drop", "compositionstart", "blur"]) field.addEventListener(name, release);
  field.addEventListener("guard:release", release, { once: true });
}

form.addEventListener("beforeinput", (event) => {
  if (event.target === guarded && event.inputType === "insertText") event.preventDefault();
});

// The first source is required, and all fields of every source that was started.
function isFirstOrStarted(field) {
  const row = field.closest("[data-row]");
  return row === row.parentElement.firstElementChild || $$("input[type='text'], textarea", row).some((one) => one.value.trim());
}

const checkedOption = (stop) => $("input:checked", stop);
const isEmpty = (element) =>
  element.matches("[data-stop]")
    ? ($("input", element)?.required && !checkedOption(element)) || (checkedOption(element)?.matches(".verdict__pick--approve") && isBlocked())
    // CustomError: a malformed reference of a source.
    : element.validity.customError || (element.required && !element.value.trim());
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
  guard(stop ? null : target);
  const whole = element.closest(".severity, .source, .question") ?? element;
  // If it does not fit, show its beginning, the question. The text beside the panel does not
  // scroll.
  if (whole.offsetHeight > panel.clientHeight / 2) panel.scrollTop += whole.getBoundingClientRect().top - panel.getBoundingClientRect().top;
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
    const leaving = event.key === "g" || document.documentElement.classList.contains("going"); // to another page
    if (event.target === guarded && !leaving && (event.key === "Enter" || event.key.length === 1)) {
      if (event.key === "Enter") guarded.dispatchEvent(new Event("guard:release"));
      event.preventDefault();
      event.stopPropagation();
      return;
    }
    if (event.key.length > 1 || event.isComposing || typing(event.target) || !panel.contains(event.target)) return;
    if (leaving) return;
    const now = performance.now();
    const isSoon = lastChoice && now - lastChoice.at < TYPING_WINDOW;
    const digit = /^[1-9? ]$/.test(event.key);
    const isKey = digit || $$(`[data-key="${CSS.escape(window.mhbKeyOf(event.key))}"]`, document).some(visible);
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
    const inField = typing(event.target) && form.contains(event.target);
    if (inField && advance(event.target)) return;
    if (inField || !panel.contains(event.target)) (stopInFocus() ? visit(stopInFocus()) : panel.focus());
    return;
  }
  if (event.defaultPrevented || typing(event.target) || !panel.contains(event.target)) return;
  if (document.body.dataset.keys === "off") return;
  if (/^[1-9]$/.test(event.key) && choose(Number(event.key))) event.preventDefault();
});

// Progress.
const progress = $("[data-steps]", form);

function updateProgress() {
  const isRequired = (one) => (one.matches("[data-stop]") ? $("input", one) : one)?.required;
  const all = $$(`[data-stop], ${FIELDS}`, form).filter((one) => visible(one) && isRequired(one));
  progress.hidden = all.length === 0;
  $("[data-answered]", progress).textContent = `${all.filter((one) => !isEmpty(one)).length}/${all.length}`;
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
  const group = element.closest("fieldset, .question");
  const legend = $("legend, .question__title", group)?.cloneNode(true);
  for (const part of $$("[data-required-mark], .code__about", legend ?? document.createElement("p"))) part.remove();
  return legend?.textContent.replace(/\s+/g, " ").trim() ?? element.name;
}

function showErrors(missing) {
  $("[data-problems]", form)?.remove();
  const summary = $("[data-problems-blank]", form).content.firstElementChild.cloneNode(true);
  for (const element of missing) {
    const stop = element.matches("[data-stop]");
    const controls = stop ? $$("input", element) : [element];
    const contradicts = stop && checkedOption(element);
    const sentence = contradicts ? $("[data-blocked]", form).textContent : stop ? form.dataset.choose : element.validity.customError ? element.validationMessage : form.dataset.fill;
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
    if (form.hasAttribute("data-agreed") && button?.name !== "keep" && performance.now() - loaded < MIN_READ_TIME) {
      event.preventDefault(); // a second press of the key on the previous page
      event.stopImmediatePropagation();
      return;
    }
    if (button?.hasAttribute("formaction") || button?.name === "sign") return;
    updateRequired();
    // An answer that is kept is complete, but for the reason of a dissent.
    const missing = openElements().filter((one) => button?.name !== "keep" || one.matches('[data-wanted~="dissent"]'));
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
form.addEventListener("change", changed);
form.addEventListener("answered", (event) => advance(event.detail)); // another module has filled in a field

// Focus the panel so that keys act at once, unless an error from the server has or gets the focus.
if (document.activeElement === document.body && visible(panel)) ($("[autofocus]", form) ?? panel).focus({ preventScroll: true });
if (form.contains(document.activeElement)) document.activeElement.scrollIntoView({ block: "center" });
