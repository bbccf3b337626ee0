// Short forms beside a review (declining, reporting a problem) are not part of its draft: this
// browser keeps the text until it has arrived. The next page confirms that in its URL, and
// drafts.js then deletes the copy; it also deletes old copies.

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
      // Storage is full or unavailable: the page works without it.
    }
  });

  if (form.hasAttribute("data-refused")) continue; // it shows the posted text
  try {
    for (const [name, value] of JSON.parse(localStorage.getItem(key))?.fields ?? []) {
      const field = form.elements[name];
      if (field) field.value = value; // for radio buttons this selects the right one
    }
  } catch {
    // As above.
  }
}
