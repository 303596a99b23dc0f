// Forms are sent once, and a half-written comment or reply survives a reload, an expired session and a lost connection.
const name = (form) => "draft:" + form.dataset.draft;

function restore() {
  for (const form of document.querySelectorAll("form[data-draft]")) {
    const field = form.elements.note ?? form.elements.text;
    if (!field || field.value) continue;
    try { field.value = localStorage.getItem(name(form)) || ""; } catch { return; }
  }
}

addEventListener("input", (ev) => {
  const form = ev.target.form;
  if (!form?.dataset.draft || !["note", "text"].includes(ev.target.name)) return;
  try { localStorage.setItem(name(form), ev.target.value); } catch { /* storage is disabled */ }
});

addEventListener("submit", (ev) => {
  const form = ev.target;
  if (form.method !== "post") return;
  if (form.dataset.sent) { ev.preventDefault(); return; }
  form.dataset.sent = "1";
});

// The page is shown again by the back button: its forms can be sent again.
addEventListener("pageshow", (ev) => {
  if (ev.persisted) for (const form of document.querySelectorAll("form[data-sent]")) delete form.dataset.sent;
});

// A decision that arrived clears its comment.
const done = new URLSearchParams(location.search);
if (["approved", "rejected", "replied"].includes(done.get("done"))) {
  try {
    for (const key of Object.keys(localStorage)) {
      if (key.startsWith("draft:" + done.get("run") + "/")) localStorage.removeItem(key);
    }
  } catch { /* storage is disabled */ }
}

const menus = ".actions details[open], .drop[open]";

// A menu closes with Escape and when something else is clicked.
addEventListener("click", (ev) => {
  for (const menu of document.querySelectorAll(menus)) if (!menu.contains(ev.target)) menu.open = false;
});
addEventListener("keydown", (ev) => {
  if (ev.key !== "Escape") return;
  for (const menu of document.querySelectorAll(menus)) { menu.open = false; menu.querySelector("summary").focus(); }
});

// Runs can be selected all at once, and the button says how many are.
function count() {
  const text = document.querySelector("[data-selected]"), all = document.querySelector("[data-all]");
  if (!text) return;
  const boxes = [...document.querySelectorAll("input[name=run]")], n = boxes.filter((box) => box.checked).length;
  text.textContent = n === 0 ? "Cancel the selected runs…" : n === 1 ? "Cancel 1 run…" : "Cancel " + n + " runs…";
  document.querySelector("[data-cancel]").disabled = n === 0;
  all.hidden = boxes.length === 0;
  all.checked = n > 0 && n === boxes.length;
}
addEventListener("change", (ev) => {
  if (ev.target.matches("[data-all]")) for (const box of document.querySelectorAll("input[name=run]")) box.checked = ev.target.checked;
  count();
});

// A decision is bound to the digest that the form was opened with. If the page shows something else now, it says so.
function compare() {
  const form = document.querySelector("form.decide"), shown = form?.querySelector("[data-digest]");
  if (shown) document.getElementById("item-changed").hidden = form.elements.digest.value === shown.dataset.digest;
}

function merged() { restore(); count(); compare(); }
merged();
document.addEventListener("merged", merged);
