// Highlights: labelled words of the text, by mouse or keyboard. A highlight is a row of the form
// (label, words, place), which the server checks against the text. Places count Unicode code
// points, as the server does; the page counts UTF-16 units.

const $ = (selector, within = document) => within.querySelector(selector);
const $$ = (selector, within = document) => [...within.querySelectorAll(selector)];
const form = $("[data-answers]");
const desk = $("[data-workbench]");
const panel = $("#highlights-panel");
const list = $("[data-rows='highlight']", panel);
const status = $("[data-highlight-status]", panel);
const menu = $("[data-highlight-menu]", panel).content.firstElementChild.cloneNode(true);
const labels = $$("[data-highlight-as]", menu).map((one) => ({ value: one.dataset.highlightAs, name: one.dataset.label, style: one.dataset.style }));

// The text of a passage, without the other side of a comparison and without numbers of traps.
const EXCLUDED = ".diff__side--before ins, .diff__side--after del, [data-aside]";

function nodesOf(passage) {
  const walker = document.createTreeWalker(passage, NodeFilter.SHOW_TEXT);
  const matches = [];
  let at = 0;
  while (walker.nextNode()) {
    const node = walker.currentNode;
    if (node.parentElement.closest(EXCLUDED)) continue;
    matches.push({ node, at });
    at += node.length;
  }
  return matches;
}

const textOf = (passage) => nodesOf(passage).map(({ node }) => node.data).join("");
const points = (text, units) => [...text.slice(0, units)].length;
const units = (text, count) => [...text].slice(0, count).join("").length;
const passageOf = (node) => (node?.nodeType === Node.TEXT_NODE ? node.parentElement : node)?.closest?.("[data-passage]");

// The number of UTF-16 units of a passage's text before a point of the document.
function offsetOf(passage, container, offset) {
  const point = new Range();
  point.setStart(container, offset);
  let count = 0;
  for (const { node } of nodesOf(passage)) {
    if (node === container) return count + offset;
    if (point.comparePoint(node, node.length) > 0) return count;
    count += node.length;
  }
  return count;
}

function selectedWords() {
  const selection = document.getSelection();
  if (selection.isCollapsed || !selection.rangeCount) return null;
  const range = selection.getRangeAt(0);
  const passage = passageOf(range.startContainer);
  if (!passage || !desk.contains(passage)) return null;
  const text = textOf(passage);
  const inside = passage.contains(range.endContainer);
  let start = offsetOf(passage, range.startContainer, range.startOffset);
  // A selection beyond the passage ends with it.
  let end = inside ? offsetOf(passage, range.endContainer, range.endOffset) : text.length;
  while (start < end && /\s/.test(text[start])) start += 1;
  while (end > start && /\s/.test(text[end - 1])) end -= 1;
  const characters = new Intl.Segmenter().segment(text); // several code points can be one of them
  start = characters.containing(start)?.index ?? start;
  const last = characters.containing(end);
  if (last && last.index < end) end = last.index + last.segment.length;
  return start < end ? { passage, text, start, end } : null;
}

// For evidence.js: the place as the server writes it.
window.mhbSelectedPlace = () => {
  const words = selectedWords();
  return words ? `${words.passage.dataset.passage}:${points(words.text, words.start)}-${points(words.text, words.end)}` : undefined;
};

// Rows.
const part = (row, name) => $(`[name$=".${name}"]`, row);
const rows = () => $$("[data-row]", list);

function read(row) {
  return {
    row,
    key: part(row, "passage").value,
    start: Number(part(row, "start").value),
    end: Number(part(row, "end").value),
    label: part(row, "label").value,
  };
}

function changed() {
  $("[data-highlights-count]", panel).textContent = $$("[data-row]", panel).length;
  drawMarks();
  form.dispatchEvent(new Event("input"));
}

function add({ passage, text, start, end }, label) {
  const place = { passage: passage.dataset.passage, start: points(text, start), end: points(text, end), label: label.value };
  const existing = rows().map(read).find((one) =>
    one.key === place.passage && one.start === place.start && one.end === place.end && one.label === place.label);
  const quote = text.slice(start, end);
  if (!existing) {
    form.dispatchEvent(new CustomEvent("rows:add", { detail: { kind: "highlight" } }));
    const row = rows().at(-1);
    for (const [name, value] of Object.entries({ ...place, quote })) part(row, name).value = value;
    panel.open = true;
    changed();
  }
  status.textContent = label.name + form.dataset.colon + quote;
}

function remove({ passage, text, start, end }) {
  const [from, to] = [points(text, start), points(text, end)];
  const overlapping = rows().map(read).filter((one) => one.key === passage.dataset.passage && one.start < to && from < one.end);
  for (const one of overlapping) one.row.remove();
  if (!overlapping.length) return;
  changed();
  status.textContent = status.dataset.removed;
}

// Words edited in a row: find their place; the server finds it again.
list.addEventListener("input", (event) => {
  const row = event.target.closest("[data-row]");
  if (event.target.matches("[name$='.quote']")) {
    const words = event.target.value.trim();
    const passage = words && $$("[data-passage]", desk).find((one) => textOf(one).includes(words));
    const text = passage ? textOf(passage) : "";
    const start = text.indexOf(words);
    part(row, "passage").value = passage ? passage.dataset.passage : "";
    part(row, "start").value = passage ? points(text, start) : 0;
    part(row, "end").value = passage ? points(text, start + words.length) : 0;
  }
  drawMarks();
});
form.addEventListener("rows:add", () => setTimeout(drawMarks)); // drafts.js restores rows
list.addEventListener("click", (event) => event.target.closest("[data-remove]") && setTimeout(changed));

// Marks in the text: the reader's own are redrawn at every change; others stay as the server
// rendered them.
function wrap(passage, start, end, label) {
  const words = nodesOf(passage).filter(({ node, at }) => at < end && start < at + node.length);
  for (const { node, at } of words) {
    const from = Math.max(start - at, 0);
    const part = from ? node.splitText(from) : node;
    const length = Math.min(end - at, from + part.length) - from;
    if (length < part.length) part.splitText(length);
    const mark = Object.assign(document.createElement("mark"), { className: `mark mark--${label.style}`, title: label.name });
    mark.dataset.own = "";
    if (at + from + length >= end) mark.dataset.name = label.name;
    part.replaceWith(mark);
    mark.append(part);
  }
}

function drawMarks() {
  const selected = cursor ?? selectedWords();
  for (const mark of $$("mark[data-own]", desk)) {
    const parent = mark.parentNode;
    mark.replaceWith(...mark.childNodes);
    parent.normalize();
  }
  for (const one of rows().map(read)) {
    const label = labels.find(({ value }) => value === one.label);
    if (!label || !one.key) continue;
    for (const passage of $$(`[data-passage="${CSS.escape(one.key)}"]`, desk)) {
      const text = textOf(passage);
      wrap(passage, units(text, one.start), units(text, one.end), label);
    }
  }
  if (selected) select(selected);
}

function pointAt(passage, offset, last) {
  const nodes = nodesOf(passage);
  const matches = nodes.findLast(({ at }) => (last ? at < offset : at <= offset)) ?? nodes[0];
  return [matches.node, Math.min(offset - matches.at, matches.node.length)];
}

function select({ passage, start, end }) {
  if (!nodesOf(passage).length) return;
  document.getSelection().setBaseAndExtent(...pointAt(passage, start), ...pointAt(passage, end, true));
}

// The menu of labels beside selected words.
menu.hidden = true;
menu.addEventListener("mousedown", (event) => event.preventDefault()); // the selection stays
menu.addEventListener("click", (event) => {
  const button = event.target.closest("[data-highlight-as]");
  const words = selectedWords();
  if (!button || !words) return;
  add(words, labels.find(({ value }) => value === button.dataset.highlightAs));
  if (!cursor) document.getSelection().removeAllRanges();
});
$(".split__text", desk).append(menu);

function showMenu() {
  const words = selectedWords();
  menu.hidden = !words;
  if (!words) return;
  const box = document.getSelection().getRangeAt(0).getBoundingClientRect();
  const { width, height } = menu.getBoundingClientRect();
  const below = box.bottom + height + 8 < innerHeight;
  menu.style.top = `${below ? box.bottom + 8 : Math.max(box.top - height - 8, 8)}px`;
  menu.style.left = `${Math.max(8, Math.min(box.left, innerWidth - width - 8))}px`;
}

let isPointerDown = false;
document.addEventListener("pointerdown", () => (isPointerDown = true));
// A finger that scrolls ends with a cancelled pointer.
for (const type of ["pointerup", "pointercancel"]) {
  document.addEventListener(type, () => {
    isPointerDown = false;
    setTimeout(showMenu);
  });
}
document.addEventListener("selectionchange", () => isPointerDown || showMenu());
addEventListener("scroll", () => menu.hidden || showMenu(), { passive: true, capture: true });

// By keyboard: a selection that moves by words and sentences, in English and Chinese alike.
let cursor = null; // {passage, text, start, end, origin}; origin: the start of an extended selection

const visiblePassages = () => $$("[data-passage]", desk).filter((one) => one.checkVisibility() && textOf(one).trim());

function segments(passage, text, granularity) {
  const language = passage.closest("[lang]")?.lang || document.documentElement.lang;
  const cut = [...new Intl.Segmenter(language, { granularity }).segment(text)];
  return cut
    .filter(({ segment, isWordLike }) => (granularity === "word" ? isWordLike : segment.trim()))
    .map(({ segment, index }) => ({ start: index + segment.length - segment.trimStart().length, end: index + segment.trimEnd().length }));
}

function enterPassage(passage, last = false, granularity = "word") {
  const text = textOf(passage);
  const all = segments(passage, text, granularity);
  const one = last ? all.at(-1) : all[0];
  if (!one) return;
  passage.tabIndex = -1;
  passage.focus({ preventScroll: true });
  cursor = { passage, text, ...one, origin: one };
  showCursor();
}

function showCursor() {
  select(cursor);
  const [node] = pointAt(cursor.passage, cursor.end, true);
  node.parentElement.scrollIntoView({ block: "nearest" });
  status.textContent = cursor.text.slice(cursor.start, cursor.end);
}

function step(by, granularity, extend) {
  const { passage, text, origin } = cursor;
  const all = segments(passage, text, granularity);
  const forward = !extend || cursor.end > origin.end || (cursor.start === origin.start && by > 0);
  const edge = extend ? (forward ? cursor.end : cursor.start) : by > 0 ? cursor.end : cursor.start;
  const next =
    by > 0
      ? all.find((one) => (extend && !forward ? one.start > edge : one.end > edge))
      : all.findLast((one) => (extend && forward && cursor.end > origin.end ? one.end < edge : one.start < edge));
  if (!next) {
    const passages = visiblePassages();
    const other = extend ? null : passages[passages.indexOf(passage) + by];
    if (other) enterPassage(other, by < 0, granularity);
    return;
  }
  if (!extend) cursor = { passage, text, ...next, origin: next };
  else if (forward && (by > 0 || cursor.end > origin.end)) cursor = { ...cursor, start: origin.start, end: Math.max(next.end, origin.end) };
  else cursor = { ...cursor, start: Math.min(next.start, origin.start), end: origin.end };
  showCursor();
}

function endSelection() {
  cursor = null;
  menu.hidden = true;
  document.getSelection().removeAllRanges();
}

const STEPS = { ArrowRight: [1, "word"], ArrowLeft: [-1, "word"], ArrowDown: [1, "sentence"], ArrowUp: [-1, "sentence"] };

document.addEventListener(
  "keydown",
  (event) => {
    if (!cursor || event.isComposing || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target !== cursor.passage) return;
    const pressed = window.mhbCharacter(event);
    const label = /^[1-9]$/.test(pressed) && labels[Number(pressed) - 1];
    if (STEPS[event.key]) step(...STEPS[event.key], event.shiftKey);
    else if (label) add(cursor, label);
    else if (event.key === "Delete" || event.key === "Backspace") remove(cursor);
    else {
      if (event.key === "Escape") endSelection(); // answering.js returns to the questions
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  },
  { capture: true },
);

document.addEventListener("focusin", (event) => {
  if (cursor && event.target !== cursor.passage && !menu.contains(event.target)) endSelection();
});

const startButton = $("[data-select-words]", desk);
startButton.hidden = false;
$(".views__head", desk)?.append(startButton);
startButton.addEventListener("click", () => {
  if (cursor) return endSelection();
  const words = selectedWords();
  const all = visiblePassages();
  const passage = words?.passage ?? all.find((one) => one.getBoundingClientRect().bottom > 100) ?? all[0];
  if (!passage) return;
  if (!passage.checkVisibility()) $("#split-text").checked = true;
  enterPassage(passage);
  status.textContent = status.dataset.words;
});

$("[data-highlights-keys]", panel).hidden = false;
drawMarks();
