// Forms are sent once, and a half-written comment survives a reload, an expired session and a lost connection.
const name = (form) => "draft:" + form.dataset.draft;

function restore() {
  for (const form of document.querySelectorAll("form[data-draft]")) {
    const field = form.elements.note;
    if (!field || field.value) continue;
    try { field.value = localStorage.getItem(name(form)) || ""; } catch { return; }
  }
}

addEventListener("input", (ev) => {
  const form = ev.target.form;
  if (!form?.dataset.draft || ev.target.name !== "note") return;
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
if (["approved", "rejected"].includes(done.get("done"))) {
  try {
    for (const key of Object.keys(localStorage)) {
      if (key.startsWith("draft:" + done.get("run") + "/")) localStorage.removeItem(key);
    }
  } catch { /* storage is disabled */ }
}

// A menu closes with Escape and when something else is clicked.
addEventListener("click", (ev) => {
  for (const menu of document.querySelectorAll(".actions details[open]")) if (!menu.contains(ev.target)) menu.open = false;
});
addEventListener("keydown", (ev) => {
  if (ev.key !== "Escape") return;
  for (const menu of document.querySelectorAll(".actions details[open]")) { menu.open = false; menu.querySelector("summary").focus(); }
});

restore();
document.addEventListener("merged", restore);
