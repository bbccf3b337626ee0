// Reading a case: from change to change, from trap to trap, and where one was is found again after a reload.

const $ = (selector, within = document) => within.querySelector(selector);
const $$ = (selector, within = document) => [...within.querySelectorAll(selector)];
const desk = $("[data-workbench]");
const kept = `mhb-view:${desk.dataset.view}`;
const visible = (element) => element.checkVisibility();

// All texts are shown in the same view.
function show(view) {
  for (const pick of $$(`.views__picks input[value="${view}"]`)) pick.checked = true;
}

document.addEventListener("change", (event) => {
  const view = event.target.closest(".views__picks input")?.value;
  if (view) show(view);
});

function visit(element) {
  const text = $("#split-text");
  if (!visible(desk.querySelector(".split__text"))) text.checked = true;
  for (const folded of $$("details", element.closest(".diff__fold") ?? element)) folded.open = true;
  element.scrollIntoView({ block: "start" });
  element.focus({ preventScroll: true, focusVisible: true });
}

// One round: after the last comes the first.
const at = new Map();

function step(selector, by) {
  show("changes");
  const all = $$(selector, desk);
  if (!all.length) return;
  const now = at.has(selector) ? at.get(selector) + by : by > 0 ? 0 : all.length - 1;
  const next = (now + all.length) % all.length;
  at.set(selector, next);
  visit(all[next].dataset.card ? document.getElementById(all[next].dataset.card) : all[next]);
}

// The guideline and the discussion are on the page: a link opens them.
document.addEventListener("click", (event) => {
  const panel = document.getElementById(event.target.closest?.("[data-unfold]")?.hash.slice(1));
  if (!panel) return;
  event.preventDefault();
  panel.open = true;
  visit(panel);
  $("summary", panel).focus({ preventScroll: true });
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

// The view, the place and what is unfolded survive a submit that was sent back, and a reload.
function keep() {
  const state = {
    view: $(".views__picks input:checked")?.value,
    top: scrollY,
    asked: $(".split__ask").scrollTop,
    open: $$("details", desk).map((one) => one.open),
  };
  try {
    sessionStorage.setItem(kept, JSON.stringify(state));
  } catch {
    // The page begins at its beginning.
  }
}

function restore() {
  let state = null;
  try {
    state = JSON.parse(sessionStorage.getItem(kept));
  } catch {
    // As above.
  }
  if (!state) return false;
  if (state.view) show(state.view);
  const all = $$("details", desk);
  if (all.length === state.open.length) all.forEach((one, number) => (one.open ||= state.open[number]));
  scrollTo(0, state.top);
  if (!$("[autofocus]", desk)) $(".split__ask").scrollTop = state.asked;
  return true;
}

addEventListener("pagehide", keep);
if (!restore() && desk.hasAttribute("data-revealed")) {
  const first = $("[data-change]", desk);
  if (first && visible(first)) first.scrollIntoView({ block: "start" });
}
