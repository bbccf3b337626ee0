// The workbench page: the lease countdown, adding and removing rows, moving on with Enter.
// drafts.js saves the text; app.js handles the keys of single elements (data-key).

const $ = (selector, within = document) => within.querySelector(selector);
const $$ = (selector, within = document) => [...within.querySelectorAll(selector)];
const form = $("[data-answers]");
const SUBMIT_TIMEOUT = 30_000; // milliseconds: then the reader has stopped the submit
const visible = (element) => element.checkVisibility();

// The lease, and how long ago the draft was saved.
const relativeTime = new Intl.RelativeTimeFormat(document.documentElement.lang, { numeric: "auto" });
let leaseEnds = 0;
let shownLease = null;

function tick() {
  const lease = $("[data-seconds-left]");
  if (lease) {
    if (lease !== shownLease) {
      // Seconds, not a time of day: the reader's clock may be wrong.
      shownLease = lease;
      leaseEnds = performance.now() + 1000 * Number(lease.dataset.secondsLeft);
    }
    const left = Math.max(0, Math.round((leaseEnds - performance.now()) / 1000));
    const time = `${Math.floor(left / 60)}:${String(left % 60).padStart(2, "0")}`;
    lease.textContent = lease.dataset.words.replace("{time}", time);
    lease.parentElement.classList.toggle("lease--low", left < 120);
  }
  const saved = $("[data-ago]");
  if (saved) {
    const seconds = Math.round((new Date(saved.dateTime) - Date.now()) / 1000);
    saved.textContent = seconds > -60 ? relativeTime.format(Math.min(seconds, 0), "second") : relativeTime.format(Math.round(seconds / 60), "minute");
  }
}

tick();
setInterval(tick, 1000);
document.addEventListener("htmx:afterSettle", tick);
document.addEventListener("htmx:oobAfterSwap", tick);

document.addEventListener("htmx:beforeRequest", (event) => {
  if (event.detail.elt.closest?.("#lease") && (document.hidden || form.matches("[data-refused], [data-ended]"))) event.preventDefault();
});

document.addEventListener("visibilitychange", () => {
  // A correction and a practice case reserve nothing.
  const lease = $("#lease");
  if (lease && !document.hidden) htmx.trigger(lease, "lease:renew");
});

// A second submit during the first would show "submitted already" instead of the next case. drafts.js
// saves nothing after a submit.
form.addEventListener("submit", (event) => {
  if (form.matches("[data-offline], [data-saving]")) return; // drafts.js lets it wait
  if (form.hasAttribute("data-sent")) event.preventDefault();
  form.toggleAttribute("data-sent", true);
  setTimeout(() => form.removeAttribute("data-sent"), SUBMIT_TIMEOUT);
});

// Rows: the server adds and removes them with submit buttons; this does it without a request.
function addRow(kind, number) {
  const list = $(`[data-rows="${kind}"]`);
  const row = $(`template[data-blank="${kind}"]`).content.firstElementChild.cloneNode(true);
  const next = number ?? 1 + Math.max(0, ...$$("[data-row]", list).map((one) => Number(one.dataset.row)));
  for (const element of [row, ...$$("*", row)]) {
    for (const { name, value } of [...element.attributes]) {
      if (["id", "for", "name", "value", "aria-describedby", "data-row"].includes(name)) {
        element.setAttribute(name, value.replaceAll(`${kind}-0-`, `${kind}-${next}-`).replace(/(?<=^|\.)0(?=\.|$)/, next));
      }
    }
  }
  $("[data-number]", row).textContent = next;
  list.append(row);
  return row;
}

form.addEventListener("click", (event) => {
  const adder = event.target.closest("[data-add]");
  const remover = event.target.closest("[data-remove]");
  if (!adder && !remover) return;
  event.preventDefault();
  if (adder) {
    const blank = (row) => !$$("input[type='text'], textarea", row).some((field) => field.value.trim());
    const row = $$("[data-row]", adder.parentElement).find(blank) ?? addRow(adder.dataset.add);
    $("[name$='.reference'], [name$='.criterion'], [name$='.quote']", row).focus();
  } else {
    const row = remover.closest("[data-row]");
    const list = row.parentElement;
    row.remove();
    list.parentElement.querySelector("[data-add]").focus();
  }
  form.dispatchEvent(new Event("input"));
});

// drafts.js restores stored rows.
form.addEventListener("rows:add", (event) => addRow(event.detail.kind, event.detail.number));

// Enter in a single-line field moves on instead of pressing a button. In a required field that is
// still empty it does nothing.
form.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.isComposing || event.keyCode === 229 || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.matches("textarea:required, input[type='text']:required") && !event.target.value) return event.preventDefault();
  if (!event.target.matches("input:not([type='password'], [type='radio'], [type='checkbox']), select")) return;
  event.preventDefault();
  const fields = [...form.elements].filter(visible);
  fields[fields.indexOf(event.target) + 1]?.focus();
});
