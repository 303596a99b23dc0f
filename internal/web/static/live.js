// Keeps an open page up to date; see doc.go. The page works without it.
import { morph, patch } from "./morph.js";
import { holdRows } from "./rows.js";

const link = document.getElementById("link");
const address = document.body.dataset.live;
const quick = 250, brisk = 1000, slow = 5000; // milliseconds until the page is requested again
let timer = 0, due = 0, busy = false, again = false, pause = brisk, last = -slow, stale = false;

function say(state, text) {
  if (link.dataset.link === state) return;
  link.dataset.link = state;
  link.textContent = text;
}

async function refresh() {
  if (busy) { again = true; return; }
  busy = true;
  const start = performance.now();
  try {
    const response = await fetch(location.href, { headers: { Accept: "text/html" }, cache: "no-store" });
    if (response.status === 401) { say("lost", "Signed out. Reload to sign in."); return; }
    if (!response.ok) return;
    const next = new DOMParser().parseFromString(await response.text(), "text/html");
    holdRows(next);
    document.title = next.title;
    morph(document.querySelector(".rail"), next.querySelector(".rail"));
    const icon = document.getElementById("icon"), sign = next.getElementById("icon").getAttribute("href");
    if (icon.getAttribute("href") !== sign) icon.setAttribute("href", sign);
    document.dispatchEvent(new Event("merge"));
    morph(document.getElementById("main"), next.getElementById("main"));
    document.dispatchEvent(new Event("merged")); // the other modules put back what they have added
  } catch { /* the connection is lost: the stream reports it */ } finally {
    busy = false;
    last = performance.now();
    pause = Math.max(brisk, 4 * (last - start)); // a page that takes long is requested less often
    if (again) { again = false; soon(); }
  }
}

// Requests the page again: at once if it has rested, after a pause otherwise.
function soon(wait = performance.now() - last > slow ? quick : pause, hidden = true) {
  if (document.hidden && !hidden) { stale = true; return; }
  const at = performance.now() + wait;
  if (timer && due <= at) return;
  clearTimeout(timer);
  due = at;
  timer = setTimeout(() => { timer = 0; refresh(); }, wait);
}

// Reports whether the panel shows a step, or can be about to.
function shows(step) {
  const path = (key) => key.slice(0, key.lastIndexOf("#")), key = document.getElementById("panel")?.dataset.step;
  return !key || path(key) === path(step);
}

// The graph is patched already when a step changes: the rest can wait, unless the panel shows that step.
function changed({ step, later }) {
  if (later || step && !shows(step)) soon(Math.max(pause, slow), false);
  else soon(undefined, !step);
}

let source = null;
const lose = () => say("lost", "Not connected, showing " + new Date().toLocaleTimeString());

function connect() {
  source?.close();
  source = new EventSource(address);
  let lost = false;
  source.addEventListener("open", () => { say("live", "Live"); if (lost) { lost = false; soon(); } });
  source.addEventListener("error", () => {
    lost = true;
    lose();
    if (source.readyState === EventSource.CLOSED) setTimeout(() => { connect(); soon(); }, 2000);
  });
  source.addEventListener("patch", (ev) => patch(JSON.parse(ev.data)));
  source.addEventListener("changed", (ev) => changed(JSON.parse(ev.data)));
  source.addEventListener("delta", (ev) => {
    const { step, text } = JSON.parse(ev.data), out = document.getElementById("stream");
    if (out && document.getElementById("panel").dataset.step === step) out.append(text);
    else if (shows(step)) changed({ step });
  });
}

if (address) {
  connect();
  addEventListener("pagehide", () => source.close());
  addEventListener("offline", () => { source.close(); lose(); });
  addEventListener("online", () => { connect(); soon(); });
  document.addEventListener("visibilitychange", () => { if (stale && !document.hidden) { stale = false; soon(); } });
  addEventListener("pageshow", (ev) => { if (ev.persisted) { connect(); soon(); } });
}
