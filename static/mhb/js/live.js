// Live pages. `data-live="5"` on #page: refreshed as a whole every five seconds while it has the attribute and something changed;
// `data-mark` on #progress says what it has shown. New content is merged into what is there: focus, scroll, open details,
// selected text and what is being typed stay.

const page = document.getElementById("page");

const keyOf = (node) =>
  node.id ||
  node.getAttribute?.("aria-labelledby") ||
  (node.nodeName === "TR" && node.querySelector("a")?.getAttribute("href")) ||
  "";

const alike = (one, other) => one.nodeName === other.nodeName && keyOf(one) === keyOf(other);

function mergeAttributes(there, wanted) {
  const kept = (name) => name === "open" && there.matches("details, dialog");
  for (const { name } of [...there.attributes]) if (!wanted.hasAttribute(name) && !kept(name)) there.removeAttribute(name);
  for (const { name, value } of wanted.attributes) {
    if (!kept(name) && there.getAttribute(name) !== value) there.setAttribute(name, value);
  }
}

function mergeChildren(there, wanted) {
  const keyed = new Map();
  for (const child of there.children) if (keyOf(child)) keyed.set(keyOf(child), child);
  let at = there.firstChild;
  for (const want of [...wanted.childNodes]) {
    const key = want.nodeType === Node.ELEMENT_NODE ? keyOf(want) : "";
    let found = key ? keyed.get(key) : at && alike(at, want) ? at : null;
    if (key) keyed.delete(key);
    if (found && found.nodeName !== want.nodeName) found = null;
    if (!found) {
      there.insertBefore(document.importNode(want, true), at);
      continue;
    }
    if (found === at) at = at.nextSibling;
    else there.insertBefore(found, at);
    merge(found, want);
  }
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}

function merge(there, wanted) {
  if (there.nodeType !== Node.ELEMENT_NODE) {
    if (there.data !== wanted.data) there.data = wanted.data;
    return;
  }
  if (there.isEqualNode(wanted)) return;
  mergeAttributes(there, wanted);
  if (!there.matches("textarea") && !(there.matches("select") && there === document.activeElement)) mergeChildren(there, wanted);
}

// Each of these parts is merged in place of being swapped.
document.addEventListener("htmx:beforeSwap", (event) => {
  const { target, serverResponse, xhr } = event.detail;
  if (!event.detail.shouldSwap || (target.id !== "page" && target.id !== "progress") || xhr.status !== 200) return;
  const found = new DOMParser().parseFromString(serverResponse, "text/html").getElementById(target.id);
  if (!found) return;
  event.detail.shouldSwap = false;
  const focused = document.activeElement;
  merge(target, found);
  // What was moved to another place has lost the focus.
  if (focused !== document.activeElement && focused.isConnected) focused.focus({ preventScroll: true });
  window.htmx.process(target);
});

const mark = () => document.getElementById("progress")?.dataset.mark;
let shown = mark();
let busy = false;

async function refresh() {
  if (busy) return;
  busy = true;
  try {
    await window.htmx.ajax("GET", location.href, { source: page, target: page, swap: "outerHTML" });
    shown = mark();
  } finally {
    busy = false;
  }
}

// The last word of a job comes at once.
document.addEventListener("mhb:changed", refresh);

async function tick() {
  const began = performance.now();
  if (page.dataset.live && !document.hidden && (!shown || mark() !== shown)) await refresh().catch(() => {});
  // A page that takes long is asked for less often.
  const seconds = Number(page.dataset.live || 5);
  setTimeout(tick, Math.max(seconds * 1000, 10 * (performance.now() - began)));
}

if (page?.dataset.live) setTimeout(tick, Number(page.dataset.live) * 1000);
