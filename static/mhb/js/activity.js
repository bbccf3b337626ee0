// Active time: how long a case was before open eyes. Time counts while the page is visible and the reader is not away; away is
// who has touched nothing for the time that reading the whole text takes. The server keeps each stretch once, whatever is sent
// twice, and cuts off what cannot be.

const BEAT = 5_000; // how often absence is looked for, milliseconds
const ASLEEP = 60_000; // no beat for so long: the machine slept
const SEND = 30_000;

const host = document.querySelector("[data-activity]");
if (host) watch(host.dataset.activity, 1000 * Number(host.dataset.allowance), Number(host.dataset.now) - Date.now());

// `ahead`: the server's clock less the reader's, which may be wrong.
function watch(address, allowance, ahead) {
  const over = []; // stretches that have ended and were not acknowledged, as [began, ended]
  let began = null;
  let touched = 0;
  let beaten = Date.now();

  function end(at) {
    if (began !== null && at > began) over.push([began, at]);
    began = null;
  }

  function beat() {
    const now = Date.now();
    if (began !== null) {
      if (now - beaten > ASLEEP) end(beaten);
      else if (now - touched > allowance) end(touched + allowance);
    }
    beaten = now;
    return now;
  }

  function touch() {
    if (document.hidden) return;
    touched = beat();
    began ??= touched;
  }

  function message(stretches) {
    const form = new FormData();
    form.set("csrfmiddlewaretoken", document.querySelector("[name=csrfmiddlewaretoken]")?.value ?? "");
    form.set("stretches", JSON.stringify(stretches.map((stretch) => stretch.map((at) => Math.round(at + ahead)))));
    return form;
  }

  // Goes out while the page stays; what is still running is sent as far as it got, and again, longer, the next time.
  async function send() {
    const now = beat();
    const ended = over.length;
    const stretches = began === null ? [...over] : [...over, [began, now]];
    if (!stretches.length) return;
    try {
      const answer = await fetch(address, { method: "POST", body: message(stretches), credentials: "same-origin" });
      // Redirected: to the sign-in page, which has kept nothing.
      if (answer.ok && !answer.redirected) over.splice(0, ended);
    } catch {
      // no network: the next message carries it
    }
  }

  // The page may never come back: nothing waits for an answer. Sending it again later would change nothing.
  function leave() {
    end(beat());
    if (over.length && navigator.sendBeacon(address, message(over))) over.length = 0;
  }

  for (const sign of ["pointerdown", "pointermove", "keydown", "wheel", "scroll", "input"]) {
    document.addEventListener(sign, touch, { capture: true, passive: true });
  }
  document.addEventListener("visibilitychange", () => (document.hidden ? leave() : touch()));
  window.addEventListener("pagehide", leave);
  window.addEventListener("pageshow", touch);
  touch();
  setInterval(beat, BEAT);
  setInterval(send, SEND);
}
