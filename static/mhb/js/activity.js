// Measures the active time on a case. Time counts while the page is visible and the reader is not
// away. Readers count as away after the estimated reading time of the whole text without any input.
// The server stores each stretch once, even if it is sent twice, and cuts off impossible times.

const BEAT = 5_000; // milliseconds between checks for absence
const ASLEEP = 60_000; // milliseconds without a beat that mean the machine slept
const SEND = 30_000; // milliseconds between messages

const host = document.querySelector("[data-activity]");
if (host) watch(host.dataset.activity, 1000 * Number(host.dataset.allowance), Number(host.dataset.now) - Date.now());

// `ahead`: the server's clock minus the reader's clock, which may be wrong.
function watch(address, allowance, ahead) {
  const finished = []; // finished stretches not yet acknowledged, as [start, end]
  let started = null;
  let lastTouch = 0;
  let lastBeat = Date.now();

  function end(at) {
    if (started !== null && at > started) finished.push([started, at]);
    started = null;
  }

  function beat() {
    const now = Date.now();
    if (started !== null) {
      if (now - lastBeat > ASLEEP) end(lastBeat);
      else if (now - lastTouch > allowance) end(lastTouch + allowance);
    }
    lastBeat = now;
    return now;
  }

  function touch() {
    if (document.hidden) return;
    lastTouch = beat();
    started ??= lastTouch;
  }

  function message(stretches) {
    const form = new FormData();
    form.set("csrfmiddlewaretoken", document.querySelector("[name=csrfmiddlewaretoken]")?.value ?? "");
    form.set("stretches", JSON.stringify(stretches.map((stretch) => stretch.map((at) => Math.round(at + ahead)))));
    return form;
  }

  // Sent while the page stays open. A running stretch is sent up to now, and again, longer, the
  // next time.
  async function send() {
    const now = beat();
    const ended = finished.length;
    const stretches = started === null ? [...finished] : [...finished, [started, now]];
    if (!stretches.length) return;
    try {
      const response = await fetch(address, { method: "POST", body: message(stretches), credentials: "same-origin" });
      // A redirect leads to the sign-in page, so nothing was stored.
      if (response.ok && !response.redirected) finished.splice(0, ended);
    } catch {
      // no network: the next message includes it
    }
  }

  // The page may not come back, so do not wait for a response. Sending a stretch again does no
  // harm.
  function leave() {
    end(beat());
    if (finished.length && navigator.sendBeacon(address, message(finished))) finished.length = 0;
  }

  for (const type of ["pointerdown", "pointermove", "keydown", "wheel", "scroll", "input"]) {
    document.addEventListener(type, touch, { capture: true, passive: true });
  }
  document.addEventListener("visibilitychange", () => (document.hidden ? leave() : touch()));
  window.addEventListener("pagehide", leave);
  window.addEventListener("pageshow", touch);
  touch();
  setInterval(beat, BEAT);
  setInterval(send, SEND);
}
