// Image viewer: zoom, position, brightness and contrast, shared by all images of a block so that
// they can be compared. Without this script they are plain images with a link to the full size.
const MIN_ZOOM = 1;
const MAX_ZOOM = 12;
const ZOOM_STEP = 1.25;
const MOVE = 40; // pixels per arrow key
const LIMITS = { brightness: [20, 300], contrast: [20, 400] };

const clamp = (value, min, max) => Math.min(max, Math.max(min, value));

class Viewer {
  constructor(block) {
    this.block = block;
    this.frames = [...block.querySelectorAll("[data-viewer-frame]")];
    this.tools = block.querySelector("[data-viewer-tools]");
    this.reset();
    this.tools.hidden = false;
    this.tools.addEventListener("click", (event) => {
      const button = event.target.closest("[data-viewer-do]");
      if (button) this.act(button.dataset.viewerDo);
    });
    this.tools.addEventListener("input", (event) => {
      const name = event.target.dataset.viewerSet;
      if (name) this.set(name, Number(event.target.value));
    });
    for (const frame of this.frames) this.activate(frame);
  }

  activate(frame) {
    frame.classList.add("viewer__frame--live");
    frame.tabIndex = 0;
    frame.setAttribute("role", "group");
    frame.setAttribute("aria-label", frame.querySelector("img").alt);
    frame.addEventListener("keydown", (event) => this.press(event));
    frame.addEventListener(
      "wheel",
      (event) => {
        if (!event.ctrlKey) return; // the page scrolls
        event.preventDefault();
        this.act(event.deltaY < 0 ? "in" : "out");
      },
      { passive: false },
    );
    frame.addEventListener("dblclick", () => this.act("in"));
    frame.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      frame.setPointerCapture(event.pointerId);
      frame.classList.add("viewer__frame--held");
    });
    frame.addEventListener("pointermove", (event) => {
      if (frame.hasPointerCapture(event.pointerId)) this.move(event.movementX, event.movementY);
    });
    const release = () => frame.classList.remove("viewer__frame--held");
    frame.addEventListener("pointerup", release);
    frame.addEventListener("pointercancel", release);
  }

  press(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const keys = {
      "+": () => this.act("in"),
      "=": () => this.act("in"),
      "-": () => this.act("out"),
      "0": () => this.act("reset"),
      ArrowLeft: () => this.move(MOVE, 0),
      ArrowRight: () => this.move(-MOVE, 0),
      ArrowUp: () => this.move(0, MOVE),
      ArrowDown: () => this.move(0, -MOVE),
      "[": () => this.set("brightness", this.brightness - 10),
      "]": () => this.set("brightness", this.brightness + 10),
      "{": () => this.set("contrast", this.contrast - 10),
      "}": () => this.set("contrast", this.contrast + 10),
    };
    const act = keys[event.key];
    if (!act) return;
    event.preventDefault();
    event.stopPropagation(); // the page has its own keys
    act();
  }

  act(action) {
    if (action === "reset") this.reset();
    else {
      const before = this.zoom;
      this.zoom = clamp(before * (action === "in" ? ZOOM_STEP : 1 / ZOOM_STEP), MIN_ZOOM, MAX_ZOOM);
      this.x *= this.zoom / before;
      this.y *= this.zoom / before;
      this.show();
    }
  }

  move(x, y) {
    const [frame] = this.frames;
    const [width, height] = [frame.clientWidth, frame.clientHeight].map((side) => (side * (this.zoom - 1)) / 2);
    this.x = clamp(this.x + x, -width, width);
    this.y = clamp(this.y + y, -height, height);
    this.show();
  }

  set(name, value) {
    this[name] = clamp(value, ...LIMITS[name]);
    this.show();
  }

  reset() {
    Object.assign(this, { zoom: 1, x: 0, y: 0, brightness: 100, contrast: 100 });
    this.show();
  }

  show() {
    if (this.zoom === 1) this.x = this.y = 0;
    for (const frame of this.frames) {
      const { style } = frame.querySelector("img");
      style.transform = `translate(${this.x}px, ${this.y}px) scale(${this.zoom})`;
      style.filter = `brightness(${this.brightness}%) contrast(${this.contrast}%)`;
    }
    this.tools.querySelector("[data-viewer-zoom]").value = `${Math.round(100 * this.zoom)} %`;
    for (const name of Object.keys(LIMITS)) this.tools.querySelector(`[data-viewer-set="${name}"]`).value = this[name];
  }
}

function activate() {
  for (const block of document.querySelectorAll("[data-viewer]:not([data-viewer-live])")) {
    block.dataset.viewerLive = "";
    new Viewer(block);
  }
}

document.addEventListener("htmx:load", activate);
activate();
