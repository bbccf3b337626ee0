// Nothing typed is ever lost. htmx sends the form as one types; until the server has said that it has it, this browser keeps a
// copy, named after person, assignment and phase. It is put back after a lost network and after a tab that was closed too soon.

const $ = (selector, within = document) => within.querySelector(selector);
const $$ = (selector, within = document) => [...within.querySelectorAll(selector)];
const KEEP_DAYS = 30; // then a copy that nobody asked for goes
const RETRY = 5000; // milliseconds
const NOT_TYPED = new Set(["csrfmiddlewaretoken", "token", "revision", "local", "password", "code"]);

// Storage can be closed to us (private windows); then the server's copy is the only one.
let storage = null;
try {
  storage = window.localStorage;
} catch {
  // The page works without.
}

function read(key) {
  try {
    return JSON.parse(storage.getItem(key));
  } catch {
    return null;
  }
}

function keysFrom(prefix) {
  return storage ? Object.keys(storage).filter((key) => key.startsWith(prefix)) : [];
}

const drop = (keys) => keys.forEach((key) => storage.removeItem(key));

// The page that follows a post says that it has arrived, in its address or, where the post was sent back, in its form: the copy
// can go.
const [, arrived] = location.hash.split("!");
for (const key of [decodeURIComponent(arrived ?? ""), $("[data-arrived]")?.dataset.arrived]) {
  if (storage && key?.startsWith("mhb-draft:")) storage.removeItem(key);
}
if (arrived) history.replaceState(history.state, "", location.pathname + location.search);

for (const key of keysFrom("mhb-draft:")) {
  if (!(Date.now() - read(key)?.at < KEEP_DAYS * 86_400_000)) storage.removeItem(key);
}

// Copying, of what is no longer in one's hands.
document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  const field = document.getElementById(button.dataset.copy);
  field.select();
  try {
    await navigator.clipboard.writeText(field.value);
  } catch {
    document.execCommand("copy"); // without https there is no clipboard but this one
  }
  button.textContent = button.dataset.copied;
});

const form = $("[data-answers]");
if (form) keep(form);
else showKept($("[data-kept-local]"));

// The page of a case that is in other hands: what only this browser has joins what the server has kept.
function showKept(page) {
  const field = $("[data-kept]", page ?? document);
  if (!page || !field) return;
  for (const key of keysFrom(page.dataset.keptLocal)) {
    const unsaved = (read(key)?.fields ?? []).filter(([name, value]) => value && /note|wording|reason|reference|criterion|quote|^citation\.\d+\.passage/.test(name));
    const lines = unsaved.map(([, value]) => value).filter((value) => !field.value.includes(value));
    if (lines.length) field.value += `\n\n${lines.join("\n\n")}`;
  }
}

function keep(form) {
  const base = form.dataset.local;
  const own = `${base}#${Math.random().toString(36).slice(2)}`; // each page its own: two tabs keep two copies
  let edits = 0; // what was typed since the page was loaded
  let sending = -1; // the edits that are on their way
  let ended = false; // the session: nothing arrives until one has signed in again
  let refused = false; // 409: this page's answers are no longer the ones that count

  const local = Object.assign(document.createElement("input"), { type: "hidden", name: "local", value: own });
  form.append(local);
  const revision = () => Number($("[name=revision]", form).value);
  const typed = () => [...new FormData(form)].filter(([name]) => !NOT_TYPED.has(name));
  const told = (fields) => JSON.stringify(fields.filter(([, value]) => value !== "").sort());

  function store() {
    try {
      storage?.setItem(own, JSON.stringify({ at: Date.now(), revision: revision(), fields: typed() }));
    } catch {
      // Full: the server's copy is the only one.
    }
  }

  function changed() {
    edits += 1;
    form.toggleAttribute("data-unsaved", true);
    store();
  }

  form.addEventListener("input", changed);
  form.addEventListener("submit", (event) => {
    if (event.defaultPrevented) return;
    if (form.hasAttribute("data-unsaved")) store();
    if (!form.hasAttribute("data-offline")) return;
    event.preventDefault();
    waiting = event.submitter;
    form.toggleAttribute("data-waiting", true);
  });

  // Without a network what is typed stays here, and a submit waits for it: with the token of this page, so that one that comes
  // too late is refused as any other.
  let waiting = null;

  function connected(yes) {
    form.toggleAttribute("data-offline", !yes);
    if (!yes || !waiting) return;
    const button = waiting;
    waiting = null;
    form.removeAttribute("data-waiting");
    form.requestSubmit(button);
  }

  window.addEventListener("offline", () => connected(false));
  window.addEventListener("online", () => connected(true));
  document.addEventListener("htmx:sendError", (event) => event.detail.elt === form && connected(false));
  document.addEventListener("htmx:afterOnLoad", (event) => event.detail.elt === form && connected(true));
  if (!navigator.onLine) connected(false);

  const save = () => form.dispatchEvent(new Event("input"));

  document.addEventListener("htmx:beforeRequest", (event) => {
    if (event.detail.elt !== form) return;
    if (refused || ended) event.preventDefault();
    else sending = edits;
  });

  document.addEventListener("htmx:afterRequest", (event) => {
    const { elt, successful, xhr } = event.detail;
    if (xhr?.status === 409 && (elt === form || elt.id === "lease")) {
      if (elt === form || !form.hasAttribute("data-unsaved")) refuse(!xhr.responseText.includes("data-stale"));
      else save(); // the lease is lost, what was typed is kept all the same
    }
    if (elt !== form) return;
    // The sign-in page, to which a session that has ended leads, is an answer too, and has kept nothing.
    const taken = successful && new URL(xhr.responseURL).pathname === form.getAttribute("hx-post");
    if (taken && sending === edits) {
      form.removeAttribute("data-unsaved");
      storage?.removeItem(own);
    }
    sending = -1;
  });

  // To sign in leads away from the page, and the physician decides when.
  document.addEventListener("mhb:ended", (event) => {
    event.preventDefault();
    ended = true;
    store();
    form.toggleAttribute("data-ended", true);
    $("[data-ended-note]", form).hidden = false;
  });

  function refuse(forGood) {
    refused = true;
    form.toggleAttribute("data-refused", true);
    if (!forGood) return;
    for (const field of form.elements) {
      if (field.matches("textarea, input:not([type='radio'], [type='checkbox'])")) field.readOnly = true;
      else field.disabled = true;
    }
  }

  // What could not be sent is sent again: when the network is back, and every few seconds until it arrives.
  const again = () => {
    if (form.hasAttribute("data-unsaved") && !refused && !ended && sending < 0) htmx.trigger(form, "input");
  };
  window.addEventListener("online", again);
  setInterval(again, RETRY);

  // Copies of this very form that an earlier page has left behind.
  document.addEventListener("click", (event) => {
    if (event.target.closest("[data-drop-local]")) drop(keysFrom(`${base}#`));
  });

  function fill(fields) {
    const values = new Map();
    for (const [name, value] of fields) values.set(name, [...(values.get(name) ?? []), value]);
    for (const list of $$("[data-rows]", form)) {
      const kind = list.dataset.rows;
      list.replaceChildren();
      const numbers = new Set([...values.keys()].map((name) => name.match(`^${kind}\\.(\\d+)\\.`)?.[1]).filter(Boolean));
      for (const number of numbers) form.dispatchEvent(new CustomEvent("rows:add", { detail: { kind, number: Number(number) } }));
    }
    for (const field of form.elements) {
      if (!field.name || NOT_TYPED.has(field.name) || field.type === "submit") continue;
      const given = values.get(field.name) ?? [];
      if (field.type === "radio" || field.type === "checkbox") field.checked = given.includes(field.value);
      else field.value = given[0] ?? "";
    }
  }

  const left = keysFrom(`${base}#`)
    .map((key) => ({ key, ...read(key) }))
    .sort((one, other) => other.at - one.at);
  const newest = left[0];
  if (newest && told(newest.fields) === told(typed())) {
    drop(left.map(({ key }) => key));
  } else if (newest) {
    const take = () => {
      fill(newest.fields);
      save();
      drop(left.map(({ key }) => key));
    };
    if (newest.revision === revision()) {
      take();
      $("[data-replayed]", form).hidden = false;
    } else {
      // Something was saved since from elsewhere: which of the two counts is not for a script to say.
      const offer = $("[data-offer]", form);
      $("[data-offer-time]", offer).textContent = new Date(newest.at).toLocaleString(document.documentElement.lang);
      $("[data-offer-take]", offer).addEventListener("click", () => {
        take();
        offer.hidden = true;
      });
      $("[data-offer-drop]", offer).addEventListener("click", () => {
        drop(left.map(({ key }) => key));
        offer.hidden = true;
      });
      offer.hidden = false;
      const tab = $("#split-ask");
      if (tab) tab.checked = true;
    }
  }
}
