// Live pages. `data-live="5"` on #page refreshes it every five seconds while it has the attribute
// and something has changed; `data-mark` on #progress identifies the state shown. New content is
// merged into the existing page, so that focus, scroll position, open details, selected text and
// input are kept.

const page = document.getElementById("page");

const keyOf = (node) =>
  node.id ||
  node.getAttribute?.("aria-labelledby") ||
  (node.nodeName === "TR" && node.querySelector("a")?.getAttribute("href")) ||
  "";

const isSameElement = (one, other) => one.nodeName === other.nodeName && keyOf(one) === keyOf(other);

function mergeAttributes(current, target) {
  const isKept = (name) => name === "open" && current.matches("details, dialog");
  for (const { name } of [...current.attributes]) if (!target.hasAttribute(name) && !isKept(name)) current.removeAttribute(name);
  for (const { name, value } of target.attributes) {
    if (!isKept(name) && current.getAttribute(name) !== value) current.setAttribute(name, value);
  }
}

function mergeChildren(current, target) {
  const keyed = new Map();
  for (const child of current.children) if (keyOf(child)) keyed.set(keyOf(child), child);
  let cursor = current.firstChild;
  for (const targetChild of [...target.childNodes]) {
    const key = targetChild.nodeType === Node.ELEMENT_NODE ? keyOf(targetChild) : "";
    let match = key ? keyed.get(key) : cursor && isSameElement(cursor, targetChild) ? cursor : null;
    if (key) keyed.delete(key);
    if (match && match.nodeName !== targetChild.nodeName) match = null;
    if (!match) {
      current.insertBefore(document.importNode(targetChild, true), cursor);
      continue;
    }
    if (match === cursor) cursor = cursor.nextSibling;
    else current.insertBefore(match, cursor);
    merge(match, targetChild);
  }
  while (cursor) {
    const next = cursor.nextSibling;
    cursor.remove();
    cursor = next;
  }
}

function merge(current, target) {
  if (current.nodeType !== Node.ELEMENT_NODE) {
    if (current.data !== target.data) current.data = target.data;
    return;
  }
  if (current.isEqualNode(target)) return;
  mergeAttributes(current, target);
  if (!current.matches("textarea") && !(current.matches("select") && current === document.activeElement)) mergeChildren(current, target);
}

// Merge these parts instead of swapping them.
document.addEventListener("htmx:beforeSwap", (event) => {
  const { target, serverResponse, xhr } = event.detail;
  if (!event.detail.shouldSwap || (target.id !== "page" && target.id !== "progress") || xhr.status !== 200) return;
  const match = new DOMParser().parseFromString(serverResponse, "text/html").getElementById(target.id);
  if (!match) return;
  event.detail.shouldSwap = false;
  const focused = document.activeElement;
  merge(target, match);
  // Moving an element removes its focus.
  if (focused !== document.activeElement && focused.isConnected) focused.focus({ preventScroll: true });
  window.htmx.process(target);
});

const mark = () => document.getElementById("progress")?.dataset.mark;
let shownMark = mark();
let busy = false;

async function refresh() {
  if (busy) return;
  busy = true;
  try {
    await window.htmx.ajax("GET", location.href, { source: page, target: page, swap: "outerHTML" });
    shownMark = mark();
  } finally {
    busy = false;
  }
}

// Show the final state of a job at once.
document.addEventListener("mhb:changed", refresh);

async function tick() {
  const started = performance.now();
  if (page.dataset.live && !document.hidden && (!shownMark || mark() !== shownMark)) await refresh().catch(() => {});
  // Refresh slow pages less often.
  const seconds = Number(page.dataset.live || 5);
  setTimeout(tick, Math.max(seconds * 1000, 10 * (performance.now() - started)));
}

if (page?.dataset.live) setTimeout(tick, Number(page.dataset.live) * 1000);
