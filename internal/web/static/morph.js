// Merges a new version of the page into the one that is shown. What has the focus, what a person has typed, which
// details are open and where things are scrolled to stays as it is. So does the digest of what a person decides on: a
// decision about something that has changed since is refused.
const fields = "input, textarea, select";

function attributes(from, to) {
  for (const { name, value } of to.attributes) {
    if (from.getAttribute(name) !== value && !(from.matches("details") && name === "open")) from.setAttribute(name, value);
  }
  for (const { name } of [...from.attributes]) {
    if (!to.hasAttribute(name) && !(from.matches("details") && name === "open")) from.removeAttribute(name);
  }
}

const same = (a, b) => a.nodeType === b.nodeType && a.nodeName === b.nodeName && (a.id || "") === (b.id || "") &&
  (!a.matches?.(fields) || a.name === b.name && a.type === b.type);

export function morph(from, to) {
  if (from.nodeType !== Node.ELEMENT_NODE) {
    if (from.data !== to.data) from.data = to.data;
    return;
  }
  if (from.isEqualNode(to) || from.matches("[data-keep]")) return;
  if (from.matches(fields) && from.type !== "hidden") return;
  // A picture that is zoomed keeps its size, unless it is another picture.
  if (from.id !== "graph" || from.getAttribute("viewBox") !== to.getAttribute("viewBox")) attributes(from, to);
  const old = [...from.childNodes];
  const byId = new Map(old.filter((n) => n.id).map((n) => [n.id, n]));
  let at = from.firstChild;
  for (const next of [...to.childNodes]) {
    const kept = next.id ? byId.get(next.id) : at && !at.id && same(at, next) ? at : null;
    if (kept && same(kept, next)) {
      if (kept === at) at = at.nextSibling;
      else from.insertBefore(kept, at);
      morph(kept, next);
    } else {
      from.insertBefore(document.importNode(next, true), at);
    }
  }
  while (at) {
    const gone = at;
    at = at.nextSibling;
    gone.remove();
  }
}

// Applies patches of the graph; see graph.Patch.
export function patch(list) {
  for (const p of list) {
    const el = document.getElementById(p.id);
    if (!el) continue;
    if (!p.attr) el.textContent = p.value;
    else if (p.remove) el.removeAttribute(p.attr);
    else el.setAttribute(p.attr, p.value);
  }
}
