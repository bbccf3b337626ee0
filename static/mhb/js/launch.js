// Shows the steps of a launch one at a time. Without this script they are one form. htmx may swap
// the form.

const showStep = (form, at) => {
  const container = form.closest("[data-steps]");
  const steps = [...form.querySelectorAll("[data-step]")];
  const last = steps.length - 1;
  steps.forEach((step, place) => (step.hidden = place !== at));
  form.dataset.at = at;
  for (const part of form.querySelectorAll("[data-with-step]")) part.hidden = Number(part.dataset.withStep) !== at;
  container.querySelector("[data-step-first]")?.toggleAttribute("hidden", at > 0);
  form.querySelector("[data-step-next]").hidden = at === last;
  form.querySelector("[data-step-done]").hidden = at !== last;
  form.querySelector("[data-step-back]").hidden = at === 0;
  [...container.querySelectorAll("[data-steps-list] li")].forEach((item, place) => {
    if (place === at) item.setAttribute("aria-current", "step");
    else item.removeAttribute("aria-current");
  });
};

const goToStep = (form, at) => {
  showStep(form, at);
  form.querySelectorAll("[data-step]")[at].querySelector("legend").focus();
};

const isStepValid = (form) => {
  const step = form.querySelectorAll("[data-step]")[form.dataset.at];
  return [...step.querySelectorAll("input, select, textarea")].every((field) => field.reportValidity());
};

function setUpSteps(form) {
  const steps = [...form.querySelectorAll("[data-step]")];
  const at = () => Number(form.dataset.at);
  form.querySelector("[data-step-next]").addEventListener("click", () => isStepValid(form) && goToStep(form, at() + 1));
  form.querySelector("[data-step-back]").addEventListener("click", () => goToStep(form, at() - 1));
  // Enter in an earlier step goes to the next one. The browser would refuse it because of required
  // fields in hidden steps.
  form.noValidate = true;
  form.addEventListener("submit", (event) => {
    const last = at() === steps.length - 1;
    if (last && isStepValid(form)) return;
    event.preventDefault();
    if (!last && isStepValid(form)) goToStep(form, at() + 1);
  });
  const invalidStep = steps.findIndex((step) => step.querySelector(".errorlist"));
  showStep(form, Math.max(invalidStep, 0));
}

const setUpAll = () => {
  for (const form of document.querySelectorAll("[data-steps] form:has([data-step]):not([data-at])")) setUpSteps(form);
};

setUpAll();
document.addEventListener("htmx:load", setUpAll);

// Search among many tick-boxes. What is ticked stays in sight.
document.addEventListener("input", (event) => {
  if (!event.target.matches("[data-picks-search]")) return;
  const words = event.target.value.toLowerCase().split(/\s+/);
  for (const box of event.target.parentElement.querySelectorAll(".picks input")) {
    const label = box.closest("label");
    const text = label.textContent.toLowerCase();
    label.parentElement.hidden = !box.checked && !words.every((word) => text.includes(word));
  }
});
