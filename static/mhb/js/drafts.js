// Nothing typed is ever lost. htmx sends the form while the reader types. Until the server has
// confirmed it, this browser keeps a copy, named after person, assignment and phase. The copy is
// restored after a network failure and after a tab that was closed too soon.

const $ = (selector, within = document) => within.querySelector(selector);
const $$ = (selector, within = document) => [...within.querySelectorAll(selector)];
const KEEP_DAYS = 30; // then unclaimed copies are deleted
const RETRY = 5000; // milliseconds
const NOT_TYPED = new Set(["csrfmiddlewaretoken", "token", "revision", "local", "password", "code"]);

// Storage may be unavailable (private windows); then the server's copy is the only one.
let storage = null;
try {
  storage = window.localStorage;
} catch {
  // The page works without it.
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

const removeKeys = (keys) => keys.forEach((key) => storage.removeItem(key));

// The page after a post confirms its arrival, in its URL or, if the post was rejected, in its form:
// delete the copy.
const [, arrived] = location.hash.split("!");
const written = new URLSearchParams(`key=${arrived ?? ""}`).get("key"); // takes broken escapes, too: links can have any
for (const key of [written, $("[data-arrived]")?.dataset.arrived]) {
  if (storage && key?.startsWith("mhb-draft:")) storage.removeItem(key);
}
if (arrived) history.replaceState(history.state, "", location.pathname + location.search);

for (const key of keysFrom("mhb-draft:")) {
  if (!(Date.now() - read(key)?.at < KEEP_DAYS * 86_400_000)) storage.removeItem(key);
}

const form = $("[data-answers]");
if (form) keepCopy(form);
else showKept($("[data-kept-local]"));

// On the page of a case that somebody else holds now, add this browser's unsaved texts to the
// server's.
function showKept(page) {
  const field = $("[data-kept]", page ?? document);
  if (!page || !field) return;
  for (const key of keysFrom(page.dataset.keptLocal)) {
    const unsaved = (read(key)?.fields ?? []).filter(([name, value]) => value && /note|wording|reason|reference|criterion|quote|^citation\.\d+\.passage/.test(name));
    const lines = unsaved.map(([, value]) => value).filter((value) => !field.value.includes(value));
    if (lines.length) field.value += `\n\n${lines.join("\n\n")}`;
  }
}

function keepCopy(form) {
  const base = form.dataset.local;
  const pageKey = `${base}#${Math.random().toString(36).slice(2)}`; // unique for each page: two tabs keep two copies
  let edits = 0; // since the page was loaded
  let sending = -1; // the value of `edits` in the request in progress, or -1
  let ended = false; // the session has ended: nothing is saved until the reader signs in again
  let refused = false; // 409: the answers of this page no longer count

  const local = Object.assign(document.createElement("input"), { type: "hidden", name: "local", value: pageKey });
  form.append(local);
  const revision = () => Number($("[name=revision]", form).value);
  const typed = () => [...new FormData(form)].filter(([name]) => !NOT_TYPED.has(name));
  const serialized = (fields) => JSON.stringify(fields.filter(([, value]) => value !== "").sort());

  function store() {
    try {
      storage?.setItem(pageKey, JSON.stringify({ at: Date.now(), revision: revision(), fields: typed() }));
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
    if (!form.matches("[data-offline], [data-saving]")) return;
    event.preventDefault();
    waitingSubmit = event.submitter;
    form.toggleAttribute("data-waiting", true);
  });

  // Without a network, text stays here and a submit waits. It has the token of this page, so that a
  // late one is refused like any other. It also waits for a save in progress, and none follows it: the
  // server could store that one after it has made the next page, to which it would look like the
  // draft of another window.
  let waitingSubmit = null;

  function connected(yes) {
    form.toggleAttribute("data-offline", !yes);
    if (!yes || !waitingSubmit) return;
    const button = waitingSubmit;
    waitingSubmit = null;
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
    if (refused || ended || form.hasAttribute("data-sent")) return event.preventDefault();
    sending = edits;
    form.toggleAttribute("data-saving", true);
  });

  document.addEventListener("htmx:afterRequest", (event) => {
    const { elt, successful, xhr } = event.detail;
    if (xhr?.status === 409 && (elt === form || elt.id === "lease")) {
      if (elt === form || !form.hasAttribute("data-unsaved")) refuse(!xhr.responseText.includes("data-stale"));
      else save(); // the lease is lost, but the text is stored anyway
    }
    if (elt !== form) return;
    form.removeAttribute("data-saving");
    // A session that has ended redirects to the sign-in page, which is a successful response but
    // stores nothing.
    const isSaved = successful && new URL(xhr.responseURL).pathname === form.getAttribute("hx-post");
    if (isSaved && sending === edits) {
      form.removeAttribute("data-unsaved");
      storage?.removeItem(pageKey);
    }
    sending = -1;
  });

  // Signing in leaves the page, and the physician decides when.
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
    waitingSubmit = null; // the reader is shown why, and decides anew
    form.removeAttribute("data-waiting");
    if (!forGood) return;
    for (const field of form.elements) {
      if (field.matches("textarea, input:not([type='radio'], [type='checkbox'])")) field.readOnly = true;
      else field.disabled = true;
    }
  }

  // Retry failed requests when the network is back, and every few seconds until they succeed.
  const retry = () => {
    if (form.hasAttribute("data-unsaved") && !refused && !ended && sending < 0) htmx.trigger(form, "input");
  };
  window.addEventListener("online", retry);
  setInterval(retry, RETRY);

  // Copies of this form left behind by earlier pages.
  document.addEventListener("click", (event) => {
    if (event.target.closest("[data-drop-local]")) removeKeys(keysFrom(`${base}#`));
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
      const stored = values.get(field.name) ?? [];
      if (field.type === "radio" || field.type === "checkbox") field.checked = stored.includes(field.value);
      else field.value = stored[0] ?? "";
    }
  }

  const leftovers = keysFrom(`${base}#`)
    .map((key) => ({ key, ...read(key) }))
    .sort((one, other) => other.at - one.at);
  const newest = leftovers[0];
  if (newest && serialized(newest.fields) === serialized(typed())) {
    removeKeys(leftovers.map(({ key }) => key));
  } else if (newest) {
    const restore = () => {
      fill(newest.fields);
      save();
      removeKeys(leftovers.map(({ key }) => key));
    };
    if (newest.revision === revision()) {
      restore();
      $("[data-replayed]", form).hidden = false;
    } else {
      // Another window has saved the draft since: the reader must choose between the two versions.
      const offer = $("[data-offer]", form);
      $("[data-offer-time]", offer).textContent = new Date(newest.at).toLocaleString(document.documentElement.lang);
      $("[data-offer-take]", offer).addEventListener("click", () => {
        restore();
        offer.hidden = true;
      });
      $("[data-offer-drop]", offer).addEventListener("click", () => {
        removeKeys(leftovers.map(({ key }) => key));
        offer.hidden = true;
      });
      offer.hidden = false;
      const tab = $("#split-ask");
      if (tab) tab.checked = true;
    }
  }
}
