// Keeps an open page up to date; see doc.go. The page works without it.
import { morph } from "./morph.js";

const link = document.getElementById("link");
const address = document.body.dataset.live;
let timer = 0, busy = false, again = false, fresh = 0, pause = 250;

function say(state, text) {
  if (link.dataset.link === state) return;
  link.dataset.link = state;
  link.textContent = text;
}

// New runs do not move the list: they are counted, and shown when the user asks.
function holdRows(next) {
  const rows = document.querySelector("[data-rows]"), later = next.querySelector("[data-rows]");
  if (!rows || !later) return;
  const known = new Set([...rows.children].map((row) => row.id));
  const added = [...later.children].filter((row) => !known.has(row.id));
  const updated = new Map([...later.children].map((row) => [row.id, row]));
  if (!rows.hasAttribute("data-older")) fresh = added.length;
  later.replaceChildren(...[...rows.children].map((row) => (updated.get(row.id) || row).cloneNode(true)));
  const note = document.getElementById("new-runs");
  note.hidden = fresh === 0;
  note.querySelector("p").textContent = fresh === 1 ? "1 run started since you opened this list." : fresh + " runs started since you opened this list.";
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
    next.getElementById("notice")?.remove();
    document.getElementById("notice")?.remove();
    document.title = next.title;
    morph(document.querySelector(".rail"), next.querySelector(".rail"));
    const icon = document.getElementById("icon"), sign = next.getElementById("icon").getAttribute("href");
    if (icon.getAttribute("href") !== sign) icon.setAttribute("href", sign);
    document.dispatchEvent(new Event("merge"));
    morph(document.getElementById("main"), next.getElementById("main"));
    document.dispatchEvent(new Event("merged")); // the other modules put back what they have added
  } catch { /* the connection is lost: the stream reports it */ } finally {
    busy = false;
    pause = Math.max(250, 4 * (performance.now() - start)); // a page that takes long is requested less often
    if (again) { again = false; soon(); }
  }
}

function soon() {
  if (!timer) timer = setTimeout(() => { timer = 0; refresh(); }, pause);
}

function patch(list) {
  for (const p of list) {
    const el = document.getElementById(p.id);
    if (!el) continue;
    if (!p.attr) el.textContent = p.value;
    else if (p.remove) el.removeAttribute(p.attr);
    else el.setAttribute(p.attr, p.value);
  }
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
  source.addEventListener("changed", soon);
  source.addEventListener("delta", (ev) => {
    const { step, text } = JSON.parse(ev.data), out = document.getElementById("stream");
    if (out && document.getElementById("panel")?.dataset.step === step) out.append(text); else soon();
  });
}

if (address) {
  connect();
  addEventListener("pagehide", () => source.close());
  addEventListener("offline", () => { source.close(); lose(); });
  addEventListener("online", () => { connect(); soon(); });
  addEventListener("pageshow", (ev) => { if (ev.persisted) { connect(); soon(); } });
}
