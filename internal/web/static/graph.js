// Zooming the graph, bringing the chosen step into view, and following the step that runs.
const box = document.querySelector(".graph");
let scale = 0; // 0: fit into the width
let following = false;

function size() {
  const svg = box.querySelector("#graph");
  if (!svg) return;
  const [, , w, h] = svg.getAttribute("viewBox").split(" ").map(Number);
  box.classList.toggle("fit", scale === 0);
  svg.setAttribute("width", scale === 0 ? w : w * scale);
  svg.setAttribute("height", scale === 0 ? h : h * scale);
}

function show(selector) {
  const node = box?.querySelector(selector);
  if (!node) return;
  const a = box.getBoundingClientRect(), b = node.getBoundingClientRect();
  box.scrollBy(b.left + b.width / 2 - a.left - a.width / 2, b.top + b.height / 2 - a.top - a.height / 2);
}

function reveal() {
  for (const button of document.querySelectorAll("[data-zoom], [data-follow]")) button.hidden = false;
}

function follow() {
  if (following) show('.node[data-state="running"]');
}

if (box) {
  reveal();
  document.addEventListener("merged", () => { reveal(); follow(); });
  document.addEventListener("click", (ev) => {
    const button = ev.target.closest("[data-zoom], [data-follow]");
    if (!button) return;
    if (button.matches("[data-follow]")) {
      following = !following;
      button.setAttribute("aria-pressed", following);
      follow();
      return;
    }
    const svg = box.querySelector("#graph");
    const now = scale || svg.getBoundingClientRect().width / Number(svg.getAttribute("viewBox").split(" ")[2]);
    scale = { in: Math.min(now * 1.25, 4), out: Math.max(now / 1.25, 0.2), fit: 0 }[button.dataset.zoom];
    size();
  });
  let drag = null;
  box.addEventListener("pointerdown", (ev) => {
    if (ev.pointerType === "mouse" && ev.button === 0 && !ev.target.closest("a")) drag = [ev.clientX, ev.clientY];
  });
  box.addEventListener("pointermove", (ev) => {
    if (!drag) return;
    box.scrollBy(drag[0] - ev.clientX, drag[1] - ev.clientY);
    drag = [ev.clientX, ev.clientY];
  });
  addEventListener("pointerup", () => { drag = null; });
  if (box.querySelector("[aria-current]")) show("[aria-current]");
  else box.scrollLeft = (box.scrollWidth - box.clientWidth) / 2;
}
