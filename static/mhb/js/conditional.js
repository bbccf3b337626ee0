// Questions that depend on an earlier answer. Without this script all are shown, with their
// condition.

function answers(name) {
  const escaped = CSS.escape(name);
  const fixed = document.querySelector(`[data-given="${escaped}"]`);
  if (fixed) return fixed.dataset.value.split(",");
  const chosen = [...document.querySelectorAll(`[name="${escaped}"]:checked`)];
  return chosen.filter((one) => !one.closest("[data-when][hidden]")).map((one) => one.value);
}

// In page order: a hidden question counts as unanswered for the questions after it.
function updateQuestions() {
  for (const question of document.querySelectorAll("[data-when]")) {
    question.hidden = !answers(question.dataset.when).includes(question.dataset.is);
  }
}

document.addEventListener("change", updateQuestions, { capture: true }); // before others count the questions
document.addEventListener("htmx:afterSettle", updateQuestions);
updateQuestions();
