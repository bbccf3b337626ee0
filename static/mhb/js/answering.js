// Answering: what is required, the way from one question to the next, and one check before anything is sent.
// A stop is a group of answers that keys lead to. Keys act while the answer panel has the focus, and never set what is out of it.

const $ = (selector, within = document) => within.querySelector(selector);
const $$ = (selector, within = document) => [...within.querySelectorAll(selector)];
const form = $("[data-answers]");
const panel = form.closest(".split__ask");
const visible = (element) => element.checkVisibility();
const typing = (element) =>
  element.isContentEditable || element.matches?.("textarea, select, input:not([type='radio'], [type='checkbox'])");
const FIELDS = "textarea, input:not([type='radio'], [type='checkbox'], [type='hidden'])";
const TYPED = 1000; // a letter that is no key, so soon before or after a key: somebody is typing a text, milliseconds
const SEEN = 600; // nobody has read a page that came so shortly ago, milliseconds

// What is required follows from the answers: a note where something is wrong, a source where the answer wants one, the harm of a
// trap while one of its rubrics stands.
const wanted = (element) =>
  element.dataset.wanted.split(" ").some((name) => $(`[data-wants~="${name}"]:checked`, element.closest(".question")));

function require() {
  for (const element of $$("[data-wanted]", form)) {
    const yes = wanted(element) && (element.name?.startsWith("citation.") ? first(element) : true);
    for (const field of element.matches("[data-stop]") ? $$("input", element) : [element]) field.required = yes;
  }
  for (const harm of $$("[data-harm]", form)) {
    const values = harm.dataset.harm.split(" ").map((name) => $(`[name="${CSS.escape(name)}"]:checked`, form)?.value);
    const stands = values.some((value) => !["inadequate", "removed"].includes(value));
    harm.hidden = !stands;
    for (const field of $$("input", harm)) field.required = stands;
  }
}

// Of the sources the first is required; of each that was begun, the other half.
function first(field) {
  const row = field.closest("[data-row]");
  return row === row.parentElement.firstElementChild || $$("input[type='text'], textarea", row).some((one) => one.value.trim());
}

const chosen = (stop) => $("input:checked", stop);
const empty = (element) =>
  element.matches("[data-stop]")
    ? $("input", element)?.required && !chosen(element)
    : element.validity.customError || (element.required && !element.value.trim()); // the reference of a source that is malformed
const stops = () => $$("[data-stop]", form).filter(visible);
const open = () => $$(`[data-stop], ${FIELDS}`, form).filter((element) => visible(element) && empty(element));

// Going there.
let last = null;

function showQuestions() {
  if (!visible(form)) $("#split-ask").checked = true;
}

function stopInFocus() {
  const here = document.activeElement.closest?.("[data-stop]");
  if (here && form.contains(here)) last = here;
  const question = document.activeElement.closest?.(".question");
  if (!here && question && form.contains(question) && !question.contains(last)) last = $("[data-stop]", question) ?? last;
  return last && last.isConnected && visible(last) ? last : null;
}

function visit(element) {
  const stop = element.matches("[data-stop]");
  if (stop) last = element;
  const target = stop ? (chosen(element) ?? $("input", element)) : element;
  target.focus({ preventScroll: true });
  const whole = element.closest(".severity, .source, .question") ?? element;
  // Of what does not fit, the beginning: what is asked. The text beside the panel stays where it is.
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

// After a choice: what is still open, below first. When nothing is, the hands stay where they are.
function advance(from) {
  const todo = open();
  const next = todo.find((one) => from.compareDocumentPosition(one) & Node.DOCUMENT_POSITION_FOLLOWING) ?? todo[0];
  if (next) visit(next);
  return Boolean(next);
}

const loaded = performance.now();
let latest = null; // the answer chosen last by a digit, and how it was before

function choose(digit) {
  showQuestions();
  const stop = stopInFocus() ?? stops().find(empty) ?? stops()[0];
  const option = stop && $$("input", stop)[digit - 1];
  if (!option) return false;
  const several = stop.hasAttribute("data-several");
  latest = { option, before: several ? option.checked && option : chosen(stop), at: performance.now() };
  last = stop;
  option.focus();
  option.click();
  if (!several) advance(stop); // of several, the next one may follow: `n` goes on
  return true;
}

// A letter that is no key: a text is being typed into no field. Until it ends no key acts, and the answer chosen just before it
// is as it was. In the capturing phase, so that it comes before the keys of the page.
let stray = -TYPED;

document.addEventListener(
  "keydown",
  (event) => {
    if (event.key.length > 1 || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.isComposing || typing(event.target) || !panel.contains(event.target)) return;
    const now = performance.now();
    const soon = latest && now - latest.at < TYPED;
    const digit = /^[1-9? ]$/.test(event.key);
    const known = digit || $$(`[data-key="${CSS.escape(window.mhbKeyOf(event.key))}"]`, document).some(visible);
    const verdict = soon && latest.option.name === "verdict" && !digit; // after a verdict no letter is a key so soon
    if (known && !verdict && now - stray > TYPED && !(soon && event.key === " ")) return;
    if (!known || verdict || now - stray <= TYPED) stray = now;
    if (soon && (!known || verdict)) takeBack();
    event.preventDefault();
    event.stopPropagation();
  },
  { capture: true },
);

function takeBack() {
  const { option, before } = latest;
  latest = null;
  if (before) before.checked = true;
  else option.checked = false;
  option.dispatchEvent(new Event("input", { bubbles: true }));
  visit(option.closest("[data-stop]"));
  const note = $("[data-typed-note]", form);
  note.textContent = form.dataset.typed;
  note.hidden = false;
}

for (const button of $$("[data-step]", form)) button.addEventListener("click", () => step(Number(button.dataset.step)));

// By mouse and touch, too: the next question comes into sight. Arrow keys within a group choose without leaving it.
form.addEventListener("click", (event) => {
  if (event.detail && event.target.matches("[data-stop]:not([data-several]) input")) setTimeout(() => advance(event.target.closest("[data-stop]")));
});

form.addEventListener("click", (event) => {
  if (!event.target.closest("[data-rest]")) return;
  event.preventDefault();
  for (const option of $$(".rubric [data-stop] input[value='adequate']", form)) {
    if (chosen(option.closest("[data-stop]"))) continue;
    option.checked = true;
    option.dispatchEvent(new Event("change", { bubbles: true }));
  }
  form.dispatchEvent(new Event("input"));
  advance(event.target);
});

document.addEventListener("keydown", (event) => {
  // While an input method composes (Chinese), every key belongs to it; 229 is how older browsers say so.
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

// How far along.
const progress = $("[data-steps]", form);

function count() {
  const all = stops().filter((stop) => $("input", stop)?.required);
  const done = all.filter(chosen).length;
  progress.hidden = all.length === 0;
  $("[data-answered]", progress).textContent = `${done}/${all.length}`;
}

// An error goes when it is mended, and the summary with the last of them.
function fault(element) {
  const field = element.matches("[data-stop]") ? $("input", element) : element;
  const name = field.id.replace(/-\d+$/, "");
  const known = [`${field.id}-error`, `${name}-error`, `${field.id}-form`];
  return known.map((id) => document.getElementById(id)).find(Boolean);
}

function mend(target) {
  const stop = target.closest?.("[data-stop]");
  const element = stop ?? target;
  if (!element.matches?.(`[data-stop], ${FIELDS}, select`) || empty(element)) return;
  const controls = stop ? $$("input", stop) : [element];
  const [field] = controls;
  if (element.name?.startsWith("citation.")) $("#citations-error", form)?.remove();
  if (field.getAttribute("aria-invalid") !== "true") return summarise();
  fault(element)?.remove();
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
  require();
  count();
  if (event.target !== form) mend(event.target);
  const note = $("[data-typed-note]", form);
  if (latest) note.hidden = true;
}

// One check before it is sent: everything that is missing is named, and the first of it has the focus.
function title(element) {
  const group = element.closest("fieldset, .question");
  const legend = $("legend, .question__title", group)?.cloneNode(true);
  for (const part of $$("[data-required-mark], .code__about", legend ?? document.createElement("p"))) part.remove();
  return legend?.textContent.replace(/\s+/g, " ").trim() ?? element.name;
}

function complain(missing) {
  $("[data-problems]", form)?.remove();
  const summary = $("[data-problems-blank]", form).content.firstElementChild.cloneNode(true);
  for (const element of missing) {
    const stop = element.matches("[data-stop]");
    const controls = stop ? $$("input", element) : [element];
    const sentence = stop ? form.dataset.choose : element.validity.customError ? element.validationMessage : form.dataset.fill;
    const id = `${controls[0].id}-error`;
    if (!fault(element)) {
      const list = document.createElement("ul");
      list.className = "errorlist";
      list.id = id;
      list.append(Object.assign(document.createElement("li"), { textContent: sentence }));
      element.after(list);
    }
    for (const control of controls) {
      control.setAttribute("aria-invalid", "true");
      control.setAttribute("aria-describedby", fault(element).id);
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
    if (form.hasAttribute("data-agreed") && button?.name !== "keep" && performance.now() - loaded < SEEN) {
      event.preventDefault(); // pressed twice on the page before
      event.stopImmediatePropagation();
      return;
    }
    if (button?.hasAttribute("formaction") || button?.name === "keep") return;
    require();
    const missing = open();
    if (!missing.length) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    complain(missing);
    showQuestions();
    visit(missing[0]);
  },
  { capture: true },
);

require();
count();
form.addEventListener("input", changed);
form.addEventListener("change", changed);
form.addEventListener("answered", (event) => advance(event.detail)); // another module has filled a field in

// Keys act at once; an error that the server has found has the focus, or is about to get it.
if (document.activeElement === document.body && visible(panel)) ($("[autofocus]", form) ?? panel).focus({ preventScroll: true });
if (form.contains(document.activeElement)) document.activeElement.closest(".question")?.scrollIntoView({ block: "nearest" });
