// Runs before the first paint, so that a chosen theme does not flash. The switch itself is in
// app.js.
document.documentElement.classList.add("js");
try {
  const chosen = localStorage.getItem("mhb-theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch {
  // Storage is unavailable (private mode): use the system's theme.
}
