// Keyboard and copying. A key moves the focus and never decides anything.
const base = document.body.dataset.base;
const places = { i: "/inbox", r: "/runs", w: "/workflows", t: "/triggers", s: "/system" };
let prefix = 0;

const typing = (el) => el.closest("input:not([type=checkbox]):not([type=radio]), textarea, select, [contenteditable]");

function move(by) {
  const rows = [...document.querySelectorAll("[data-rove] a.name, [data-rove] a.ask, [data-rove] a.gantt-row")];
  const at = rows.indexOf(document.activeElement);
  rows[Math.min(rows.length - 1, Math.max(0, at + by))]?.focus();
}

addEventListener("keydown", (ev) => {
  if (ev.ctrlKey || ev.metaKey || ev.altKey || typing(ev.target)) return;
  const key = ev.key;
  if (Date.now() - prefix < 1000 && places[key]) { location.href = base + places[key]; return; }
  prefix = key === "g" ? Date.now() : 0;
  if (key === "?") document.getElementById("keys")?.showModal();
  else if (key === "j") move(1);
  else if (key === "k") move(-1);
  else {
    const box = key === "/" ? document.querySelector("input[type=search]") : document.querySelector(`[data-key="${CSS.escape(key)}"]`);
    if (box) { ev.preventDefault(); box.focus(); }
  }
});

async function copy(el) {
  const lines = () => [...document.querySelectorAll(el.dataset.copyFrom)].map((line) => line.textContent).join("\n");
  const label = el.getAttribute("aria-label");
  try { await navigator.clipboard.writeText(el.dataset.copy ?? lines()); } catch { return; }
  el.setAttribute("aria-label", "Copied");
  el.dataset.copied = "";
  setTimeout(() => { el.setAttribute("aria-label", label); delete el.dataset.copied; }, 2000);
}

addEventListener("click", (ev) => {
  const el = ev.target.closest("[data-keys], [data-copy], [data-copy-from]");
  if (el?.matches("[data-keys]")) document.getElementById("keys").showModal();
  else if (el) copy(el);
});
