// The discussion: words selected in the text become the passage of a remark, and passages remarked on are marked in the text.
// The marks are highlights of the browser: the text itself is not touched. Without them, the quotes stand in the discussion.

const marks = "Highlight" in window && CSS.highlights ? new Highlight() : null;
if (marks) CSS.highlights.set("remark", marks);

function textOf(node) {
  return node?.nodeType === Node.TEXT_NODE ? node.parentElement : node;
}

document.addEventListener("selectionchange", () => {
  const selection = document.getSelection();
  const input = document.querySelector("[data-quote-input]");
  const passage = textOf(selection.anchorNode)?.closest?.("[data-passage]");
  if (!input || !passage || selection.isCollapsed || passage !== textOf(selection.focusNode)?.closest?.("[data-passage]")) return;
  input.value = selection.toString().trim();
  document.querySelector("[data-passage-input]").value = passage.dataset.passage;
  keep(input.form);
});

// A remark that is not said yet is in no draft of the review: this browser keeps it until it is said. By its name, drafts.js
// lets it go when it has become old.
const kept = (form) => [...form.elements].filter((field) => ["text", "quote", "passage"].includes(field.name));

function keep(form) {
  const fields = Object.fromEntries(kept(form).map((field) => [field.name, field.value]));
  try {
    if (fields.text || fields.quote) localStorage.setItem(form.dataset.remark, JSON.stringify({ at: Date.now(), ...fields }));
    else localStorage.removeItem(form.dataset.remark);
  } catch {
    // Storage is full or closed to us: the page works without.
  }
}

function restore() {
  const form = document.querySelector("[data-remark]:not([data-refused])");
  if (!form || kept(form).some((field) => field.value)) return;
  try {
    const fields = JSON.parse(localStorage.getItem(form.dataset.remark));
    for (const field of kept(form)) field.value = fields?.[field.name] ?? "";
    if (fields) form.closest("details").open = true;
  } catch {
    // As above.
  }
}

document.addEventListener("input", (event) => {
  if (event.target.form?.matches("[data-remark]")) keep(event.target.form);
});

document.addEventListener("htmx:beforeSwap", (event) => {
  const { requestConfig, xhr } = event.detail;
  if (!requestConfig?.elt.matches("[data-remark]") || xhr.status >= 300) return;
  try {
    localStorage.removeItem(requestConfig.elt.dataset.remark);
  } catch {
    // As above.
  }
});

// By its key the discussion opens, never closes, and the remark can be typed at once; Escape leads back out of it.
document.addEventListener("click", (event) => {
  const talk = event.target.closest?.("[data-talk] > summary")?.parentElement;
  if (!talk || event.isTrusted) return;
  event.preventDefault();
  talk.open = true;
  talk.querySelector("textarea").focus();
});

document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || event.isComposing || event.keyCode === 229) return;
  if (event.target.matches?.("[data-talk] textarea")) event.target.blur();
});

// The place of `quote` in an element whose text may be cut into several nodes by difference marks. What is only there for the
// other side of a comparison is no part of the text.
const others = ".diff__side--before ins, .diff__side--after del, [data-aside]";

function find(element, quote) {
  const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
  const nodes = [];
  let text = "";
  while (walker.nextNode()) {
    if (walker.currentNode.parentElement.closest(others)) continue;
    nodes.push([walker.currentNode, text.length]);
    text += walker.currentNode.data;
  }
  const start = text.indexOf(quote);
  if (start < 0) return null;
  const at = (offset) => {
    const [node, begins] = nodes.findLast(([, first]) => first <= offset);
    return [node, offset - begins];
  };
  const range = new Range();
  range.setStart(...at(start));
  range.setEnd(...at(start + quote.length));
  return range;
}

function mark() {
  if (!marks) return;
  marks.clear();
  for (const quote of document.querySelectorAll("[data-quote]")) {
    for (const passage of document.querySelectorAll("[data-passage]")) {
      const range = find(passage, quote.textContent);
      if (range) marks.add(range);
    }
  }
}

mark();
restore();
document.addEventListener("htmx:afterSettle", () => {
  mark();
  restore();
});
