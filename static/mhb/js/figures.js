// Saves charts as PNG by drawing the SVG file on a canvas. Without this script, SVG and CSV are
// available.
const SCALE = 2; // for print and high-density screens

async function renderPng(address) {
  const image = new Image();
  image.src = address;
  await image.decode();
  const canvas = document.createElement("canvas");
  canvas.width = SCALE * image.naturalWidth;
  canvas.height = SCALE * image.naturalHeight;
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
}

// The name under which the site sends the SVG file: release, run, day and chart.
async function nameOf(address) {
  const { headers } = await fetch(address, { method: "HEAD" });
  return headers.get("Content-Disposition").match(/filename="(.+)\.svg"/)[1];
}

async function save(address) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(await renderPng(address));
  link.download = `${await nameOf(address)}.png`;
  link.click();
  URL.revokeObjectURL(link.href);
}

function showButtons() {
  for (const button of document.querySelectorAll("[data-png][hidden]")) button.hidden = false;
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-png]");
  if (button) save(button.dataset.png);
});
document.addEventListener("htmx:load", showButtons);
showButtons();
