// Logs: search, follow the end while it grows, expand and collapse, and lines with addresses.
const all = (selector) => [...document.querySelectorAll(selector)];
const ends = new Map();

function find() {
  const box = document.querySelector("[data-find] input");
  if (!box) return;
  const text = box.value.toLowerCase();
  for (const line of all("#log li")) line.hidden = !line.lastChild.textContent.toLowerCase().includes(text);
}

function reveal() {
  for (const el of all("[data-find], [data-fold]")) el.hidden = false;
}

// A log that was at its end stays at its end.
document.addEventListener("merge", () => {
  ends.clear();
  for (const el of all(".panel > .scroll, .lines")) ends.set(el, el.scrollHeight - el.scrollTop - el.clientHeight < 8);
});

document.addEventListener("merged", () => {
  reveal();
  find();
  const live = document.querySelector(".panel [data-live]");
  for (const [el, atEnd] of ends) if (atEnd && (live || el.matches(".lines"))) el.scrollTop = el.scrollHeight;
});

addEventListener("input", (ev) => { if (ev.target.closest("[data-find]")) find(); });

addEventListener("click", (ev) => {
  const button = ev.target.closest("[data-fold]");
  if (!button) return;
  const list = all("[data-folds] details"), open = list.some((el) => !el.open);
  for (const el of list) el.open = open;
  button.textContent = open ? "Collapse all" : "Expand all";
});

// The address of a line opens it.
function open() {
  const el = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (el?.matches("details")) el.open = true;
  el?.scrollIntoView({ block: "nearest" });
}

reveal();
open();
addEventListener("hashchange", open);
for (const el of all("#log[data-live] .lines")) el.scrollTop = el.scrollHeight;
