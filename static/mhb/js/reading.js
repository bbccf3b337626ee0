// Reading a case: step through changes and traps, and restore the reader's position after a reload.

const $ = (selector, within = document) => within.querySelector(selector);
const $$ = (selector, within = document) => [...within.querySelectorAll(selector)];
const desk = $("[data-workbench]");
const storageKey = `mhb-view:${desk.dataset.view}`;
const visible = (element) => element.checkVisibility();

// Show all texts in the same view.
function showView(view) {
  for (const pick of $$(`.views__picks input[value="${view}"]`)) pick.checked = true;
}

document.addEventListener("change", (event) => {
  const view = event.target.closest(".views__picks input")?.value;
  if (view) showView(view);
});

function visit(element) {
  const text = $("#split-text");
  if (!visible(desk.querySelector(".split__text"))) text.checked = true;
  for (const folded of $$("details", element.closest(".diff__fold") ?? element)) folded.open = true;
  element.scrollIntoView({ block: "start" });
  element.focus({ preventScroll: true, focusVisible: true });
}

// Current index by selector; wraps around after the last element.
const positions = new Map();

function step(selector, by) {
  showView("changes");
  const all = $$(selector, desk);
  if (!all.length) return;
  const now = positions.has(selector) ? positions.get(selector) + by : by > 0 ? 0 : all.length - 1;
  const next = (now + all.length) % all.length;
  positions.set(selector, next);
  visit(all[next].dataset.card ? document.getElementById(all[next].dataset.card) : all[next]);
}

// The mark of a trap in the text leads to the question about it, which may be in the other tab.
document.addEventListener("click", (event) => {
  const card = document.getElementById(event.target.closest?.(".trap-mark")?.hash?.slice(1));
  if (card && !visible(card)) $("#split-ask").checked = true;
});

// Links open the guideline and the discussion, which are on the same page.
document.addEventListener("click", (event) => {
  const panel = document.getElementById(event.target.closest?.("[data-unfold]")?.hash.slice(1));
  if (!panel) return;
  event.preventDefault();
  panel.open = true;
  visit(panel);
  ($("textarea", panel) ?? $("summary", panel)).focus();
});

const tools = $("[data-reading]");
if (tools && $("[data-change]", desk)) {
  tools.hidden = false;
  const head = $(".views__head", desk);
  head.append(tools);
  for (const button of $$("[data-to]", tools)) {
    button.hidden = !$(button.dataset.to, desk);
    button.addEventListener("click", () => step(button.dataset.to, Number(button.dataset.by)));
  }
}

// Keep the view, scroll positions and open details across a rejected submit or a reload.
function saveState() {
  const state = {
    view: $(".views__picks input:checked")?.value,
    top: scrollY,
    asked: $(".split__ask").scrollTop,
    open: $$("details", desk).map((one) => one.open),
  };
  try {
    sessionStorage.setItem(storageKey, JSON.stringify(state));
  } catch {
    // The page starts at the top.
  }
}

function restoreState() {
  let state = null;
  try {
    state = JSON.parse(sessionStorage.getItem(storageKey));
  } catch {
    // As above.
  }
  if (!state) return false;
  if (state.view) showView(state.view);
  const all = $$("details", desk);
  if (all.length === state.open.length) all.forEach((one, number) => (one.open ||= state.open[number]));
  scrollTo(0, state.top);
  if (!$("[autofocus]", desk)) $(".split__ask").scrollTop = state.asked;
  return true;
}

addEventListener("pagehide", saveState);
if (!restoreState() && desk.hasAttribute("data-revealed")) {
  const first = $("[data-change]", desk);
  if (first && visible(first)) first.scrollIntoView({ block: "start" });
}
