// The behaviour of the frame. Pages declare it in attributes and need no script:
//   data-go="w"            `g` then `w` follows this link          data-key="j"      `j` clicks this element
//   data-key="ctrl+enter"  works while typing in its form, too     data-key-label    its name in the `?` dialog
//   data-key-within        works only while its form has the focus
//   data-dismiss           removes the nearest .message            data-opens="id"   opens that <dialog>
//   data-copy="id"         copies the text of that element           data-copied       what the button says then
//   data-add-row           adds another of the rows beside it        data-row          one of them
//   data-here              the form may be answered with the next page itself: one request, no redirect

const root = document.documentElement;
const $ = (selector, within = document) => within.querySelector(selector);
const $$ = (selector, within = document) => [...within.querySelectorAll(selector)];
const visible = (element) => element.checkVisibility?.() ?? element.offsetParent !== null;

// A page that was the response to a form gets its own URL, so that Back and reload show it again
// and send nothing twice; so does a page that refuses a form.
const isRefusal = performance.getEntriesByType("navigation")[0]?.responseStatus >= 400;
if (document.body.dataset.shownAt ?? isRefusal) history.replaceState(null, "", document.body.dataset.shownAt ?? location.href);
for (const form of $$("form[data-here]")) form.setAttribute("action", `${form.getAttribute("action")}?here`);

// Some browsers restore a page from memory with Back, whatever its headers say: it is outdated, and
// its reader may have signed out.
window.addEventListener("pageshow", (event) => {
  if (event.persisted) location.reload();
});

// Texts that somebody else left unsent in this browser go with the sign-in of another account. Their
// names hold the account's number (drafts.js, asides.js, talk.js, typed.js).
const account = document.body.dataset.account;

function removeTextsOfOthers(storage) {
  for (const key of Object.keys(storage)) {
    const owner = key.match(/^mhb-draft:(?:[a-z]+:)?(\d+):/)?.[1];
    if (owner && owner !== account) storage.removeItem(key);
  }
}

try {
  if (account) [localStorage, sessionStorage].forEach(removeTextsOfOthers);
} catch {
  // Storage is unavailable: nothing is kept there.
}

// Times are shown in the reader's time zone, from the next page on.
const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
if (zone) document.cookie = `mhb_time_zone=${zone}; path=/; max-age=31536000; samesite=lax${location.protocol === "https:" ? "; secure" : ""}`;

// After a rejected form, focus the first invalid field, wherever on the page its form is.
const invalidField = isRefusal && $("main :is([aria-invalid='true'], fieldset:has(> .errorlist) input)");
if (invalidField && !$("[autofocus]")) {
  invalidField.closest("details")?.setAttribute("open", "");
  invalidField.focus();
}

// Theme: cycles through system, light and dark.
const THEMES = ["system", "light", "dark"];
const themeSwitch = $("[data-theme-switch]");

function showTheme() {
  const now = root.dataset.theme ?? "system";
  for (const part of $$("[data-theme-name]", themeSwitch)) part.toggleAttribute("hidden", part.dataset.themeName !== now);
}

if (themeSwitch) {
  themeSwitch.hidden = false;
  showTheme();
  themeSwitch.addEventListener("click", () => {
    const next = THEMES[(THEMES.indexOf(root.dataset.theme ?? "system") + 1) % THEMES.length];
    if (next === "system") delete root.dataset.theme;
    else root.dataset.theme = next;
    try {
      localStorage.setItem("mhb-theme", next);
    } catch {
      // The choice lasts for this page.
    }
    showTheme();
  });
}

// The rail behind its button, on narrow screens.
const railToggle = $("[data-rail-toggle]");
railToggle?.addEventListener("click", () => {
  const open = $("#rail").classList.toggle("rail--open");
  railToggle.setAttribute("aria-expanded", String(open));
});

// Menus (<details class="menu">) close on Escape and on a click elsewhere, as menus do.
function closeMenus(except) {
  for (const menu of $$("details.menu[open]")) if (menu !== except) menu.open = false;
}

document.addEventListener("click", (event) => {
  closeMenus(event.target.closest("details.menu"));
  event.target.closest("[data-dismiss]")?.closest(".message, .problem")?.remove();
  const opener = event.target.closest("[data-opens]");
  if (opener) openDialog(document.getElementById(opener.dataset.opens));
});

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  const field = document.getElementById(button.dataset.copy);
  field.closest("details")?.setAttribute("open", "");
  if (field.select) field.select();
  else getSelection().selectAllChildren(field);
  try {
    await navigator.clipboard.writeText(field.value ?? field.textContent);
  } catch {
    document.execCommand("copy"); // without HTTPS this is the only clipboard
  }
  button.textContent = button.dataset.copied;
});

// Another row of a list: a copy of the last one, emptied. Without this script the server adds it.
document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-add-row]");
  if (!button) return;
  event.preventDefault();
  const row = [...button.parentElement.querySelectorAll("[data-row]")].at(-1).cloneNode(true);
  for (const field of row.querySelectorAll("input, select")) field.value = "";
  button.before(row);
  row.querySelector("input, select").focus();
});

// What went well is said until the next action after it could be read; problems stay.
const READ_MESSAGE = 4000; // milliseconds
function fadeMessages(event) {
  if (performance.now() < READ_MESSAGE || event.target.closest?.(".messages")) return;
  for (const message of $$(".message--success, .message--info", $("#messages"))) {
    message.classList.add("message--done");
    setTimeout(() => message.remove(), 700);
  }
}
for (const action of ["click", "keydown"]) document.addEventListener(action, fadeMessages);

// Lists: select all rows of the page, and count the selected ones.
for (const all of $$("[data-select-all]")) {
  const list = all.closest("form");
  const rows = $$('[name="rows"]', list);
  const counter = $("[data-selected]", list);
  const updateSelection = () => {
    const count = rows.filter((row) => row.checked).length;
    all.checked = count === rows.length;
    all.indeterminate = count > 0 && count < rows.length;
    if (counter) counter.textContent = count ? `(${count})` : "";
  };
  all.hidden = false;
  all.addEventListener("change", () => {
    for (const row of rows) row.checked = all.checked;
    updateSelection();
  });
  list.addEventListener("change", updateSelection);
  updateSelection();
}

// Keys.
const keysDialog = $("#keys");

function openDialog(dialog) {
  if (!dialog || dialog.open) return;
  if (dialog === keysDialog) listKeys();
  dialog.showModal();
}

function keyRow(label, keys) {
  const row = document.createElement("div");
  const name = document.createElement("dt");
  const value = document.createElement("dd");
  name.textContent = label;
  for (const key of keys) {
    const cap = document.createElement("kbd");
    cap.className = "key";
    cap.textContent = key;
    value.append(cap, " ");
  }
  row.append(name, value);
  return row;
}

function listKeys() {
  const words = (element) => [...element.childNodes].filter((part) => part.nodeName !== "KBD").map((part) => part.textContent);
  const label = (element) => element.dataset.keyLabel ?? element.getAttribute("aria-label") ?? words(element).join("").trim();
  const places = $$("[data-go]").map((link) => keyRow(label(link), ["g", link.dataset.go]));
  const seen = new Set();
  const here = $$("[data-key]").filter(
    (element) => element.matches("[data-key-within]") || (!seen.has(element.dataset.key) && seen.add(element.dataset.key)),
  );
  $("[data-keys-go]", keysDialog).replaceChildren(...places);
  $("[data-keys-page]", keysDialog).replaceChildren(
    ...here.map((element) => keyRow(label(element), (keyMap[element.dataset.key] ?? element.dataset.key).split("+"))),
  );
  $("[data-keys-page-head]", keysDialog).hidden = here.length === 0;
  $("[data-keys-go-head]", keysDialog).hidden = places.length === 0;
}

const typing = (target) =>
  target.isContentEditable ||
  (target.matches?.("input, textarea, select") && !target.matches('[type="radio"], [type="checkbox"], [type="button"], [type="submit"]'));

// The default key for a pressed one: readers may have reassigned or disabled keys.
const keyMap = JSON.parse(document.body.dataset.keyMap || "{}");

// The character of a key by which shortcuts go: the Latin letter or digit that it types, or else the
// one at its place on an English keyboard (Cyrillic letters, the digits of AZERTY).
const PLACES = { BracketLeft: "[", BracketRight: "]" };

function characterOf(event) {
  const typed = event.key.toLowerCase();
  if (typed.length !== 1 || /[a-z0-9?\s]/.test(typed)) return typed;
  const [, letter, digit] = event.code.match(/^(?:Key([A-Z])|Digit([0-9]))$/) ?? [];
  if (digit && event.shiftKey) return typed;
  return letter?.toLowerCase() ?? digit ?? PLACES[event.code] ?? typed;
}

function keyOf(pressed) {
  const original = Object.keys(keyMap).find((key) => keyMap[key] === pressed);
  return original ?? (pressed in keyMap ? "" : pressed);
}

window.mhbKeyOf = keyOf; // for the scripts of single pages
window.mhbCharacter = characterOf;

let goTimer = 0;

function endGo() {
  clearTimeout(goTimer);
  goTimer = 0;
  root.classList.remove("going");
}

// Keys act on the form that has the focus and never submit another one. There are two exceptions
// while nothing is being typed: without a focused form, keys act on the whole page; and from the
// answers of a review, letters press any element of the page (undo).
const formOf = (element) => element.form ?? element.closest?.("form") ?? null;

function mayPress(element, target, modified) {
  const [own, focused] = [formOf(element), formOf(target)];
  // Letters only answer while the answer panel has the focus; citing selected text works from
  // anywhere.
  const answers = !modified && own?.matches("[data-answers]") && !element.matches("[data-cite]");
  if (answers && !own.parentElement.contains(target)) return false;
  if (own === focused && (own || !typing(target))) return true;
  if (element.matches("[data-key-within]") || (own && typing(target))) return false;
  return !own || !focused || (!modified && focused.matches("[data-answers]"));
}

// Scroll to and focus what a key opens.
function press(element) {
  if (element.matches("input, textarea, select, summary")) element.focus();
  if (!element.matches("textarea, select")) element.click();
  if (element.matches("summary")) element.parentElement.scrollIntoView({ block: "nearest" });
}

document.addEventListener("keydown", (event) => {
  // Keys belong to the input method while it composes (Chinese); older browsers report 229.
  if (event.isComposing || event.keyCode === 229 || event.defaultPrevented) return;
  if (event.key === "Escape") {
    const menu = $("details.menu[open]");
    if (menu) {
      menu.open = false;
      $("summary", menu).focus();
    }
    endGo();
    return;
  }
  const modified = event.ctrlKey || event.metaKey || event.altKey;
  const name = (event.ctrlKey || event.metaKey ? "ctrl+" : "") + (event.altKey ? "alt+" : "") + keyOf(characterOf(event));
  if ($("dialog[open]") || (!modified && typing(event.target))) return;
  // A closed dialog keeps the focus until the next frame.
  const target = event.target.closest?.("dialog") ? document.body : event.target;
  // Single letters can be turned off, and on a case only act while its panels have the focus (WCAG
  // 2.1.4).
  const within = $("[data-keys-here]");
  if (!modified && (document.body.dataset.keys === "off" || (within && !within.contains(target)))) return;

  if (!modified && goTimer) {
    const place = $(`[data-go="${CSS.escape(characterOf(event))}"]`);
    endGo();
    if (place) {
      event.preventDefault();
      place.click();
    }
    return;
  }
  if (!modified && event.key === "?") {
    event.preventDefault();
    openDialog(keysDialog);
    return;
  }
  const element = $$(`[data-key="${CSS.escape(name)}"]`).find(
    (one) => visible(one) && !one.disabled && mayPress(one, target, modified),
  );
  if (element) {
    event.preventDefault();
    // A key held down since the previous page must not submit this one.
    if (!(event.repeat && element.type === "submit")) press(element);
  } else if (!modified && characterOf(event) === "g") {
    root.classList.add("going");
    goTimer = setTimeout(endGo, 1500);
  }
});

// htmx: errors are shown in the message area, never swapped into the middle of a page.
const messages = $("#messages");
const networkLost = $("#network-lost");

// `busy`: drafts.js will retry, and the message disappears once that has succeeded.
function showProblem(html, fallback, busy) {
  const found = new DOMParser().parseFromString(html, "text/html").querySelector("[data-problem]");
  const problem = found ? document.importNode(found, true) : document.createElement("p");
  if (!found) {
    problem.className = "problem";
    problem.setAttribute("role", "alert");
    problem.textContent = fallback;
  }
  const already = $("[data-busy]", messages);
  problem.toggleAttribute("data-busy", busy);
  for (const old of $$(".problem", messages)) old.remove();
  messages.append(problem);
  if (!(busy && already)) problem.scrollIntoView({ block: "nearest" });
}

document.addEventListener("htmx:responseError", (event) => {
  const { xhr } = event.detail;
  showProblem(xhr.responseText, `${messages.dataset.failed} (${xhr.status})`, xhr.status === 503);
});

document.addEventListener("htmx:afterRequest", (event) => {
  if (event.detail.successful) $("[data-busy]", messages)?.remove();
});

// After a session has ended, the response is the sign-in page instead of a fragment. A page with
// unsaved text handles this itself (`mhb:ended`) and stays; others are reloaded, which leads to the
// sign-in page.
document.addEventListener("htmx:beforeSwap", (event) => {
  const { xhr } = event.detail;
  const login = document.body.dataset.login;
  if (xhr.responseURL && new URL(xhr.responseURL).pathname === login && location.pathname !== login) {
    event.detail.shouldSwap = false;
    if (document.dispatchEvent(new Event("mhb:ended", { cancelable: true }))) {
      // What was posted is kept, and the page after signing in shows it.
      if (event.detail.requestConfig.verb === "get") location.reload();
      else location.assign(xhr.responseURL);
    }
  }
});

const setLost = (yes) => networkLost?.toggleAttribute("hidden", !yes);
document.addEventListener("htmx:sendError", () => setLost(true));
document.addEventListener("htmx:timeout", () => setLost(true));
document.addEventListener("htmx:afterOnLoad", () => setLost(false));
window.addEventListener("offline", () => setLost(true));
window.addEventListener("online", () => setLost(false));
