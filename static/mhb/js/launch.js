// The steps of a launch, one at a time. Without this script both are one form. The form may be swapped by htmx at any time.

const show = (form, at) => {
  const around = form.closest("[data-steps]");
  const steps = [...form.querySelectorAll("[data-step]")];
  const last = steps.length - 1;
  steps.forEach((step, place) => (step.hidden = place !== at));
  form.dataset.at = at;
  for (const part of form.querySelectorAll("[data-with-step]")) part.hidden = Number(part.dataset.withStep) !== at;
  around.querySelector("[data-step-first]")?.toggleAttribute("hidden", at > 0);
  form.querySelector("[data-step-next]").hidden = at === last;
  form.querySelector("[data-step-done]").hidden = at !== last;
  form.querySelector("[data-step-back]").hidden = at === 0;
  [...around.querySelectorAll("[data-steps-list] li")].forEach((item, place) => {
    if (place === at) item.setAttribute("aria-current", "step");
    else item.removeAttribute("aria-current");
  });
};

const go = (form, at) => {
  show(form, at);
  form.querySelectorAll("[data-step]")[at].querySelector("legend").focus();
};

const fits = (form) => {
  const step = form.querySelectorAll("[data-step]")[form.dataset.at];
  return [...step.querySelectorAll("input, select, textarea")].every((field) => field.reportValidity());
};

function fold(form) {
  const steps = [...form.querySelectorAll("[data-step]")];
  const at = () => Number(form.dataset.at);
  form.querySelector("[data-step-next]").addEventListener("click", () => fits(form) && go(form, at() + 1));
  form.querySelector("[data-step-back]").addEventListener("click", () => go(form, at() - 1));
  // Enter in a field of an earlier step goes to the next one. The browser would refuse it for what a hidden step requires.
  form.noValidate = true;
  form.addEventListener("submit", (event) => {
    const last = at() === steps.length - 1;
    if (last && fits(form)) return;
    event.preventDefault();
    if (!last && fits(form)) go(form, at() + 1);
  });
  const wrong = steps.findIndex((step) => step.querySelector(".errorlist"));
  show(form, Math.max(wrong, 0));
}

const foldAll = () => {
  for (const form of document.querySelectorAll("[data-steps] form:has([data-step]):not([data-at])")) fold(form);
};

foldAll();
document.addEventListener("htmx:load", foldAll);
