let fresh = 0;

// New runs do not move the list: they are counted, and shown when the user asks.
export function holdRows(next) {
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
