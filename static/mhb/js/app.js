// The behaviour of the frame. Pages declare what they want in attributes and bring no script:
//   data-go="w"            `g` then `w` follows this link          data-key="j"      `j` clicks this element
//   data-key="ctrl+enter"  works while typing in its form, too     data-key-label    what the `?` dialog calls it
//   data-key-within        works only while its form has the focus
//   data-dismiss           removes the nearest .message            data-opens="id"   opens that <dialog>
//   data-here              the page that a form leads to may be its answer: one request, no redirect

const root = document.documentElement;
const $ = (selector, within = document) => within.querySelector(selector);
const $$ = (selector, within = document) => [...within.querySelectorAll(selector)];
const visible = (element) => element.checkVisibility?.() ?? element.offsetParent !== null;

// A page that answers a form is shown at its own address, so that it can be reloaded and gone back to.
if (document.body.dataset.shownAt) history.replaceState(null, "", document.body.dataset.shownAt);
for (const form of $$("form[data-here]")) form.setAttribute("action", `${form.getAttribute("action")}?here`);

// After a refused form, the first field to correct has the focus, wherever on the page its form is.
const toCorrect = performance.getEntriesByType("navigation")[0]?.responseStatus === 422 && $("main [aria-invalid='true']");
if (toCorrect && !$("[autofocus]")) {
  toCorrect.closest("details")?.setAttribute("open", "");
  toCorrect.focus();
}

// Theme: system, light, dark, and around again.
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

// Lists: all rows of the page at once, and how many are selected.
for (const all of $$("[data-select-all]")) {
  const list = all.closest("form");
  const rows = $$('[name="rows"]', list);
  const told = $("[data-selected]", list);
  const tell = () => {
    const count = rows.filter((row) => row.checked).length;
    all.checked = count === rows.length;
    all.indeterminate = count > 0 && count < rows.length;
    if (told) told.textContent = count ? `(${count})` : "";
  };
  all.hidden = false;
  all.addEventListener("change", () => {
    for (const row of rows) row.checked = all.checked;
    tell();
  });
  list.addEventListener("change", tell);
  tell();
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
    ...here.map((element) => keyRow(label(element), (chosen[element.dataset.key] ?? element.dataset.key).split("+"))),
  );
  $("[data-keys-page-head]", keysDialog).hidden = here.length === 0;
  $("[data-keys-go-head]", keysDialog).hidden = places.length === 0;
}

const typing = (target) =>
  target.isContentEditable ||
  (target.matches?.("input, textarea, select") && !target.matches('[type="radio"], [type="checkbox"], [type="button"], [type="submit"]'));

// The key that the page knows for a pressed one: its reader may have chosen others, or none.
const chosen = JSON.parse(document.body.dataset.keyMap || "{}");

function keyOf(pressed) {
  const found = Object.keys(chosen).find((key) => chosen[key] === pressed);
  return found ?? (pressed in chosen ? "" : pressed);
}

window.mhbKeyOf = keyOf; // for the scripts of single pages

let going = 0;

function stopGoing() {
  clearTimeout(going);
  going = 0;
  root.classList.remove("going");
}

// Keys act on the form that has the focus: none submits another one. Two exceptions where nothing is being typed: with the focus
// in no form, keys are the page's; and from the answers of a review, letters press whatever the page offers (undo).
const formOf = (element) => element.form ?? element.closest?.("form") ?? null;

function acts(element, target, modified) {
  const [own, focused] = [formOf(element), formOf(target)];
  // A letter answers only from among the answers; text selected elsewhere can be cited from there.
  const answers = !modified && own?.matches("[data-answers]") && !element.matches("[data-cite]");
  if (answers && !own.parentElement.contains(target)) return false;
  if (own === focused && (own || !typing(target))) return true;
  if (element.matches("[data-key-within]") || (own && typing(target))) return false;
  return !own || !focused || (!modified && focused.matches("[data-answers]"));
}

// What a key opens comes into sight and has the focus.
function press(element) {
  if (element.matches("input, textarea, select, summary")) element.focus();
  if (!element.matches("textarea, select")) element.click();
  if (element.matches("summary")) element.parentElement.scrollIntoView({ block: "nearest" });
}

document.addEventListener("keydown", (event) => {
  // While an input method composes (Chinese), every key belongs to it; 229 is how older browsers say so.
  if (event.isComposing || event.keyCode === 229 || event.defaultPrevented) return;
  if (event.key === "Escape") {
    const menu = $("details.menu[open]");
    if (menu) {
      menu.open = false;
      $("summary", menu).focus();
    }
    stopGoing();
    return;
  }
  const modified = event.ctrlKey || event.metaKey || event.altKey;
  const name = (event.ctrlKey || event.metaKey ? "ctrl+" : "") + (event.altKey ? "alt+" : "") + keyOf(event.key.toLowerCase());
  if ($("dialog[open]") || (!modified && typing(event.target))) return;
  const target = event.target.closest?.("dialog") ? document.body : event.target; // until the next frame, a closed one has the focus
  // Single letters act where the reader wants them, and on a case only while its panels have the focus (WCAG 2.1.4).
  const within = $("[data-keys-here]");
  if (!modified && (document.body.dataset.keys === "off" || (within && !within.contains(target)))) return;

  if (!modified && going) {
    const place = $(`[data-go="${CSS.escape(event.key.toLowerCase())}"]`);
    stopGoing();
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
    (one) => visible(one) && !one.disabled && acts(one, target, modified),
  );
  if (element) {
    event.preventDefault();
    // A key still held down since the page before must not submit this one.
    if (!(event.repeat && element.type === "submit")) press(element);
  } else if (!modified && event.key === "g") {
    root.classList.add("going");
    going = setTimeout(stopGoing, 1500);
  }
});

// htmx: an error is shown where messages live, and never swapped into the middle of a page.
const messages = $("#messages");
const lost = $("#network-lost");

// `busy`: it will be tried again (drafts.js), and the message goes when that has worked.
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

// A session that ended answers with the sign-in page; that is a page, not a fragment. A page on which something is typed says so
// itself (`mhb:ended`) and stays; others are loaded anew, which leads to the sign-in.
document.addEventListener("htmx:beforeSwap", (event) => {
  const { xhr } = event.detail;
  const login = document.body.dataset.login;
  if (xhr.responseURL && new URL(xhr.responseURL).pathname === login && location.pathname !== login) {
    event.detail.shouldSwap = false;
    if (document.dispatchEvent(new Event("mhb:ended", { cancelable: true }))) location.reload();
  }
});

const setLost = (yes) => lost?.toggleAttribute("hidden", !yes);
document.addEventListener("htmx:sendError", () => setLost(true));
document.addEventListener("htmx:timeout", () => setLost(true));
document.addEventListener("htmx:afterOnLoad", () => setLost(false));
window.addEventListener("offline", () => setLost(true));
window.addEventListener("online", () => setLost(false));
