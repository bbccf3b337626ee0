// Adding sources quickly: detects the kind of a pasted reference, cites selected text of the case,
// reuses recent sources. The server validates them (review/rules/citations.py); here errors are
// shown at once.

const $ = (selector, within = document) => within.querySelector(selector);
const $$ = (selector, within = document) => [...within.querySelectorAll(selector)];
const form = $("[data-answers]");
const evidence = $(".evidence", form);
const FORMS = {
  doi: /^(?:(?:https?:\/\/)?(?:dx\.|www\.)?doi\.org\/|doi:\s*)?10\.\d{4,9}(?:\.\d+)*\/\S+$|\s(?:(?:https?:\/\/)?(?:dx\.|www\.)?doi\.org\/|doi:?\s*)10\.\d{4,9}(?:\.\d+)*\/\S/i,
  pmid: /^(?:https?:\/\/(?:www\.)?(?:pubmed\.ncbi\.nlm\.nih\.gov|ncbi\.nlm\.nih\.gov\/pubmed)\/|pmid:?\s*)?[1-9]\d{0,7}\/?$|\spmid:?\s*[1-9]\d{0,7}\b/i,
  url: /^https?:\/\/[^\s/@]+\.[^\s/@]+(?:\/\S*)?$/i,
  search: /^(?:(?:not found|searched|search):?\s|检索|未检索到|未找到)/i,
  book: /^ISBN(?:-1[03])?:?\s*\d[\dXx -]{8,16}|textbook|handbook|\bedition\b|教材|教科书|手册/i,
  guideline: /guideline|guidance|recommendations|consensus|指南|共识|规范/i,
};

const STRICT = new Set(["doi", "pmid", "url"]);

const part = (row, name) => $(`[name$=".${name}"]`, row);
const notifyInput = (field) => field.dispatchEvent(new Event("input", { bubbles: true }));

function kindOf(reference) {
  return Object.keys(FORMS).find((kind) => FORMS[kind].test(reference.trim())) ?? "";
}

// The kind follows the reference until the reader has chosen one; where it does not, it is asked.
function updateRow(row) {
  const [kind, reference] = [part(row, "kind"), part(row, "reference")];
  if (!kind.hasAttribute("data-own")) kind.value = kindOf(reference.value);
  const fits = !STRICT.has(kind.value) || FORMS[kind.value].test(reference.value.trim()) || !reference.value.trim();
  const errorId = `${reference.id}-form`;
  document.getElementById(errorId)?.remove();
  if (!fits && !document.getElementById(`${reference.id}-error`)) {
    const list = Object.assign(document.createElement("ul"), { className: "errorlist", id: errorId });
    list.append(Object.assign(document.createElement("li"), { textContent: evidence.dataset.malformed }));
    reference.after(list);
  }
  // The level follows from most kinds of source, until the reader has chosen one.
  const level = part(row, "level");
  if (level && !level.hasAttribute("data-own")) level.value = kind.selectedOptions[0].dataset.level ?? "";
  part(row, "section").closest(".field").hidden = ["case", "search"].includes(kind.value);
  for (const name of $$("[data-named]", row)) name.hidden = (name.dataset.named === "search") !== (kind.value === "search");
}

function freeRow() {
  const blank = (row) => !part(row, "reference").value.trim() && !part(row, "passage").value.trim();
  const blankRow = $$("[data-row]", evidence).find(blank);
  if (blankRow) return blankRow;
  $("[data-add]", evidence).click();
  return $$("[data-row]", evidence).at(-1);
}

function fill(row, values) {
  for (const [name, value] of Object.entries(values)) part(row, name).value = value;
  part(row, "kind").toggleAttribute("data-own", true);
  notifyInput(part(row, "reference"));
}

// The last selected text, because a click removes the selection.
let selected = null;

document.addEventListener("selectionchange", () => {
  const selection = document.getSelection();
  const node = selection.anchorNode;
  const passage = (node?.nodeType === Node.TEXT_NODE ? node.parentElement : node)?.closest?.("[data-passage]");
  const text = selection.toString().trim();
  if (passage && text) selected = { passage, text, place: window.mhbSelectedPlace?.() };
  if (evidence) $("[data-cite]", evidence)?.toggleAttribute("disabled", !selected);
});

function cite() {
  if (!selected) return;
  const { passage, text, place } = selected;
  const title = $(".block__title, .callout__head", passage.closest("section, figure"))?.textContent.trim() ?? "";
  const [, turn] = passage.dataset.passage.split(".");
  const several = $$("[data-passage]", passage.closest("section")).length > 1;
  evidence.classList.add("evidence--open");
  const row = freeRow();
  fill(row, { kind: "case", reference: several ? `${title} (${turn})` : title, section: place ?? passage.dataset.passage, passage: text });
  notifyInput(part(row, "passage"));
  form.dispatchEvent(new CustomEvent("answered", { detail: part(row, "passage") }));
}

if (evidence) {
  $("[data-cite]", evidence).hidden = false;
  for (const row of $$("[data-row]", evidence)) {
    const kind = part(row, "kind");
    kind.toggleAttribute("data-own", Boolean(kind.value) && kind.value !== kindOf(part(row, "reference").value));
    part(row, "level")?.toggleAttribute("data-own", Boolean(part(row, "level").value));
    updateRow(row);
  }
  evidence.addEventListener("input", (event) => {
    const row = event.target.closest("[data-row]");
    if (event.target.matches("[data-kind], [name$='.level']")) event.target.toggleAttribute("data-own", Boolean(event.target.value));
    if (row) updateRow(row);
  });
  // What is pasted into an empty field is complete: go on to what the source still lacks.
  evidence.addEventListener("paste", (event) => {
    const row = event.target.closest("[data-row]");
    if (!row || event.target.value) return;
    setTimeout(() => $$("input, textarea, select", row).find((field) => field.required && !field.value.trim())?.focus());
  });
  evidence.addEventListener("click", (event) => {
    if (event.target.closest("[data-cite]")) cite();
    if (event.target.closest("[data-add-search]")) {
      event.preventDefault();
      const row = freeRow();
      fill(row, { kind: "search" });
      part(row, "reference").focus();
    }
    const recent = event.target.closest("[data-recent]");
    if (!recent) return;
    event.preventDefault();
    const { kind, reference, section } = recent.dataset;
    const row = freeRow();
    fill(row, { kind, reference, section });
    part(row, "passage").focus();
  });
}
