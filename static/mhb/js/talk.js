// The discussion: selected words become the quote of a remark, and quoted passages are marked in
// the text. The marks use the CSS Custom Highlight API, which leaves the text unchanged. Without
// it, the quotes are only in the discussion.

const marks = "Highlight" in window && CSS.highlights ? new Highlight() : null;
if (marks) CSS.highlights.set("remark", marks);

function elementOf(node) {
  return node?.nodeType === Node.TEXT_NODE ? node.parentElement : node;
}

document.addEventListener("selectionchange", () => {
  const selection = document.getSelection();
  const input = document.querySelector("[data-quote-input]");
  const passage = elementOf(selection.anchorNode)?.closest?.("[data-passage]");
  if (!input || !passage || selection.isCollapsed || passage !== elementOf(selection.focusNode)?.closest?.("[data-passage]")) return;
  input.value = selection.toString().trim();
  document.querySelector("[data-passage-input]").value = passage.dataset.passage;
  keepRemark(input.form);
});

// An unposted remark is not part of the review's draft: this browser keeps it until it is posted.
// The name of its key lets drafts.js delete it when it is old.
const keptFields = (form) => [...form.elements].filter((field) => ["text", "quote", "passage"].includes(field.name));

function keepRemark(form) {
  const fields = Object.fromEntries(keptFields(form).map((field) => [field.name, field.value]));
  try {
    if (fields.text || fields.quote) localStorage.setItem(form.dataset.remark, JSON.stringify({ at: Date.now(), ...fields }));
    else localStorage.removeItem(form.dataset.remark);
  } catch {
    // Storage is full or unavailable: the page works without it.
  }
}

function restoreRemark() {
  const form = document.querySelector("[data-remark]:not([data-refused])");
  if (!form || keptFields(form).some((field) => field.value)) return;
  try {
    const fields = JSON.parse(localStorage.getItem(form.dataset.remark));
    for (const field of keptFields(form)) field.value = fields?.[field.name] ?? "";
    if (fields) form.closest("details").open = true;
  } catch {
    // As above.
  }
}

document.addEventListener("input", (event) => {
  if (event.target.form?.matches("[data-remark]")) keepRemark(event.target.form);
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

// A name that can be reached goes to where the cursor is, in the place of a name begun there. While
// one is begun, only the names that complete it are offered; the down arrow leads to them.
const begunName = (field) => /(?:^|[^\w@])(@[\w.+-]*)$/.exec(field.value.slice(0, field.selectionStart))?.[1] ?? "";
const isComment = (element) => element.matches?.("[data-remark] [name='text']");

function offerNames(field) {
  const begun = begunName(field).toLowerCase();
  for (const button of field.form.querySelectorAll("[data-mention]")) {
    button.hidden = !button.dataset.mention.toLowerCase().startsWith(begun) && !button.title.toLowerCase().includes(begun.slice(1));
  }
}

document.addEventListener("click", (event) => {
  const button = event.target.closest?.("[data-mention]");
  if (!button) return;
  const field = button.form.elements.text;
  field.setRangeText(`${button.dataset.mention} `, field.selectionStart - begunName(field).length, field.selectionEnd, "end");
  field.focus();
  offerNames(field);
  keepRemark(field.form);
});

document.addEventListener("input", (event) => {
  if (isComment(event.target)) offerNames(event.target);
});

document.addEventListener("keydown", (event) => {
  if (event.key !== "ArrowDown" || event.isComposing || !isComment(event.target) || !begunName(event.target)) return;
  const first = event.target.form.querySelector("[data-mention]:not([hidden])");
  if (!first) return;
  event.preventDefault();
  first.focus();
});

// Its key opens the discussion (and never closes it) with the focus on the remark; Escape leaves
// it.
document.addEventListener("click", (event) => {
  const discussion = event.target.closest?.("[data-talk] > summary")?.parentElement;
  if (!discussion || event.isTrusted) return;
  event.preventDefault();
  discussion.open = true;
  discussion.querySelector("textarea").focus();
});

document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || event.isComposing || event.keyCode === 229) return;
  if (event.target.matches?.("[data-talk] textarea")) event.target.blur();
});

// Finds `quote` in an element whose text may be split into several nodes by difference marks. The
// other side of a comparison is not part of the text.
const excluded = ".diff__side--before ins, .diff__side--after del, [data-aside]";

function findRange(element, quote) {
  const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
  const nodes = [];
  let text = "";
  while (walker.nextNode()) {
    if (walker.currentNode.parentElement.closest(excluded)) continue;
    nodes.push([walker.currentNode, text.length]);
    text += walker.currentNode.data;
  }
  const start = text.indexOf(quote);
  if (start < 0) return null;
  const at = (offset) => {
    const [node, nodeStart] = nodes.findLast(([, first]) => first <= offset);
    return [node, offset - nodeStart];
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
      const range = findRange(passage, quote.textContent);
      if (range) marks.add(range);
    }
  }
}

mark();
restoreRemark();
document.addEventListener("htmx:afterSettle", () => {
  mark();
  restoreRemark();
});
