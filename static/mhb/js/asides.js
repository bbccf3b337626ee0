// Short forms beside a review (declining, reporting a problem) are in no draft: this browser keeps what is typed until it has
// arrived. The page that follows says so in its address, and drafts.js, there and here, lets the copy go, as it does old ones.

for (const form of document.querySelectorAll("[data-aside]")) {
  const key = form.dataset.aside;
  const typed = () => [...new FormData(form)].filter(([name]) => !["csrfmiddlewaretoken", "token", "local"].includes(name));
  form.append(Object.assign(document.createElement("input"), { type: "hidden", name: "local", value: key }));

  form.addEventListener("input", () => {
    const fields = typed();
    try {
      if (fields.some(([, value]) => value)) localStorage.setItem(key, JSON.stringify({ at: Date.now(), fields }));
      else localStorage.removeItem(key);
    } catch {
      // Storage is full or closed to us: the page works without.
    }
  });

  if (form.hasAttribute("data-refused")) continue; // it shows what was posted
  try {
    for (const [name, value] of JSON.parse(localStorage.getItem(key))?.fields ?? []) {
      const field = form.elements[name];
      if (field) field.value = value; // of a group of radio buttons: the chosen one
    }
  } catch {
    // As above.
  }
}
