// Text that was typed into a form and not sent, or refused, is there again after Back, Forward, reload,
// a refusal and a sign-in: browsers restore no field of a page that they may not store. This tab keeps it, for its
// account alone. A review, a remark and the forms beside a case keep their own for longer
// (drafts.js, talk.js, asides.js).

const OWN = "[data-answers], [data-remark], [data-aside]";
const NOT_KEPT = "[type='hidden'], [type='password'], [type='file'], [type='submit'], [name='code'], [readonly]";
const account = document.body.dataset.account;
const arrival = performance.getEntriesByType("navigation")[0];
// The page that answers a form, with what was posted: nothing of it is what the page has by default.
const isAnswer = arrival?.responseStatus >= 400 || "shownAt" in document.body.dataset;

const pageKey = () => `mhb-draft:typed:${account}:${location.pathname}${location.search}`;
const SENT = `mhb-draft:sent:${account}:`;
let sentForm = null;

// What a form is about: its address, and the row, version or numbers that its hidden fields name. Once
// these are others, it is another form. Tokens and keys are new on each page.
function subjectOf(form) {
  const hidden = [...form.elements].filter((field) => field.type === "hidden" && !/(token|key)$/.test(field.name));
  return [form.getAttribute("action") ?? "", ...hidden.map((field) => `${field.name}=${field.value}`)].join(" ");
}

// [name, field] of each field in the page's forms. The names tell equal fields of a page apart; those
// of boxes have their values, so that a list with other rows has the same ones ticked.
function namedFields() {
  const counts = new Map();
  const named = [];
  for (const form of document.querySelectorAll(`main form[method='post']:not(${OWN})`)) {
    const subject = subjectOf(form);
    for (const field of form.elements) {
      if (!field.name || !field.matches(`input:not(${NOT_KEPT}), textarea:not(${NOT_KEPT}), select`)) continue;
      const name = `${subject} ${field.name}${isBox(field) ? `=${field.value}` : ""}`;
      const count = counts.get(name) ?? 0;
      counts.set(name, count + 1);
      named.push([`${name} ${count}`, field]);
    }
  }
  return named;
}

const isBox = (field) => ["checkbox", "radio"].includes(field.type);

function valueOf(field) {
  if (isBox(field)) return field.checked;
  if (field.multiple && field.options) return [...field.selectedOptions].map((option) => option.value);
  return field.value;
}

function defaultOf(field) {
  if (isBox(field)) return field.defaultChecked;
  if (field.options) return [...field.options].filter((option) => option.defaultSelected).map((option) => option.value);
  return field.defaultValue;
}

function isTouched(field) {
  if (isBox(field)) return field.checked !== field.defaultChecked;
  if (field.options) return [...field.options].some((option) => option.selected !== option.defaultSelected);
  return field.value !== field.defaultValue;
}

const isSame = (one, other) => JSON.stringify(one) === JSON.stringify(other);

// Only over what it was typed over: somebody else may have changed that since.
function setValue(field, { value, over }) {
  if (isSame(valueOf(field), value) || (over !== undefined && !isSame(defaultOf(field), over))) return;
  if (isBox(field)) field.checked = value;
  else if (Array.isArray(value)) for (const option of field.options) option.selected = value.includes(option.value);
  else field.value = value;
  field.closest("details")?.setAttribute("open", "");
  field.dispatchEvent(new Event("change", { bubbles: true }));
}

function keep() {
  const values = {};
  for (const [name, field] of namedFields()) {
    if (isAnswer) values[name] = { value: valueOf(field) };
    else if (isTouched(field)) values[name] = { value: valueOf(field), over: defaultOf(field) };
  }
  if (Object.keys(values).length) sessionStorage.setItem(pageKey(), JSON.stringify(values));
  else sessionStorage.removeItem(pageKey());
  if (sentForm) sessionStorage.setItem(SENT, JSON.stringify({ path: location.pathname, refused: values, accepted: besidesSent() }));
}

function besidesSent() {
  const values = {};
  for (const [name, field] of namedFields()) {
    if (field.form !== sentForm && isTouched(field)) values[name] = { value: valueOf(field), over: defaultOf(field) };
  }
  return values;
}

// A form leads to its page: refused, all is as it was typed, also if it was sent from the answer to
// another form; accepted, the other forms of the same page are.
function takeSent() {
  const sent = JSON.parse(sessionStorage.getItem(SENT));
  sessionStorage.removeItem(SENT);
  if (!sent) return {};
  if (document.querySelector("#messages .message--error")) return sent.refused;
  return sent.path === location.pathname ? sent.accepted : {};
}

function restore(kept) {
  for (const name of Object.keys(kept)) {
    const shown = new Map(namedFields());
    const first = shown.get(name.replace(/\d+$/, "0"));
    if (!shown.has(name)) first?.closest("[data-row]")?.parentElement.querySelector("[data-add-row]").click();
  }
  for (const [name, field] of namedFields()) if (name in kept) setValue(field, kept[name]);
}

const signIn = document.body.dataset.login.replace(/[^/]+\/$/, "");
// This tab showed a page of nobody, as that of the sign-in. A provider's page leads back from another site.
const SIGNING_IN = "mhb-signing-in";

function takeSignIn() {
  const isFromSignIn = SIGNING_IN in sessionStorage || document.referrer.startsWith(location.origin + signIn);
  if (account) sessionStorage.removeItem(SIGNING_IN);
  else sessionStorage.setItem(SIGNING_IN, "1");
  return isFromSignIn;
}

try {
  const sent = takeSent();
  const isFromSignIn = takeSignIn();
  if (account && !isAnswer) {
    const kept = JSON.parse(sessionStorage.getItem(pageKey())) ?? {};
    if (arrival?.type === "navigate" && !isFromSignIn) {
      sessionStorage.removeItem(pageKey());
      restoreUntilTyped(sent);
    } else restoreUntilTyped(kept);
  }
} catch {
  // Storage is unavailable: nothing is kept there.
}

// A choice that is restored may load the form that belongs to it.
function restoreUntilTyped(kept) {
  const again = () => restore(kept);
  const stop = (event) => event.isTrusted && document.removeEventListener("htmx:afterSettle", again);
  document.addEventListener("htmx:afterSettle", again);
  document.addEventListener("input", stop);
  restore(kept);
}

document.addEventListener("submit", (event) => {
  if (!event.defaultPrevented && event.target.matches("[method='post']")) sentForm = event.target;
});

addEventListener("pagehide", () => {
  try {
    if (account) keep();
  } catch {
    // As above, or full.
  }
});
