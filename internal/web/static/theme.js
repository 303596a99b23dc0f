// The chosen theme, before the first paint. This is not a module because modules run after it.
(() => {
  const root = document.documentElement, dark = matchMedia("(prefers-color-scheme: dark)");
  let kept = null;
  try { kept = localStorage.getItem("theme"); } catch { /* storage is disabled: follow the system */ }
  if (kept === "light" || kept === "dark") root.dataset.theme = kept;
  addEventListener("click", (ev) => {
    if (!ev.target.closest("[data-theme-toggle]")) return;
    const now = root.dataset.theme || (dark.matches ? "dark" : "light");
    root.dataset.theme = now === "dark" ? "light" : "dark";
    try { localStorage.setItem("theme", root.dataset.theme); } catch { /* it lasts until the next page */ }
  });
})();
