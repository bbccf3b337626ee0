// Swagger UI is written as a whole page. Here it is part of one: no second <main>, its title ranks
// below the page's, and scrollable parts can be focused. React creates every element with this
// function.
const REPLACEMENTS = { main: "div", h1: "h2" };
const createElement = document.createElement.bind(document);
document.createElement = (name, options) => {
  const element = createElement(REPLACEMENTS[name] ?? name, options);
  if (name === "pre") element.tabIndex = 0;
  return element;
};
