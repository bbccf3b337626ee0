// Swagger UI takes itself for a whole page. In this one it is a part: no second <main>, its title comes below the page's, and
// what scrolls can be reached by key. React makes every element through here.
const OURS = { main: "div", h1: "h2" };
const create = document.createElement.bind(document);
document.createElement = (name, options) => {
  const made = create(OURS[name] ?? name, options);
  if (name === "pre") made.tabIndex = 0;
  return made;
};
