// Questions that are asked only with a certain answer to an earlier one. Without this script they are shown, and say so.

function answer(name) {
  const escaped = CSS.escape(name);
  const given = document.querySelector(`[data-given="${escaped}"]`);
  const chosen = document.querySelector(`[name="${escaped}"]:checked`);
  return given ? given.dataset.value : chosen && !chosen.closest("[data-when][hidden]") ? chosen.value : "";
}

// In the order of the page: a question that is not asked has no answer for those after it.
function ask() {
  for (const question of document.querySelectorAll("[data-when]")) {
    question.hidden = answer(question.dataset.when) !== question.dataset.is;
  }
}

document.addEventListener("change", ask);
document.addEventListener("htmx:afterSettle", ask);
ask();
