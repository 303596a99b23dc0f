// Search and versions of the documentation site. Everything is read from script files, so that it works from file://.
"use strict";
const root = document.querySelector(".brand").getAttribute("href").replace(/index\.html$/, "");

// Pages of the index have addresses from the root of the site; the current page may lie deeper.
const address = (id) => root + id.replace(/^\.?\//, "");

function setUpSearch() {
  const form = document.querySelector(".search"), input = document.getElementById("q");
  const list = document.getElementById("found");
  const index = new MiniSearch({ fields: ["title", "text"], storeFields: ["title", "text"],
    searchOptions: { boost: { title: 4 }, prefix: true, fuzzy: 0.15, combineWith: "AND" } });
  index.addAll(window.searchPages);
  form.hidden = false;
  let selected = -1;
  const options = () => [...list.querySelectorAll("a")];
  const excerpt = (text, words) => {
    const at = text.toLowerCase().indexOf(words[0] ?? "");
    const from = Math.max(0, at - 40);
    return (from > 0 ? "…" : "") + text.slice(from, from + 140).replace(/\s+/g, " ") + "…";
  };
  const show = () => {
    const found = index.search(input.value).slice(0, 8);
    selected = -1;
    list.replaceChildren(...found.map((hit, i) => {
      const item = document.createElement("li"), link = document.createElement("a"), text = document.createElement("span");
      item.role = "option"; item.id = `found-${i}`;
      link.href = address(hit.id); link.textContent = hit.title; link.tabIndex = -1;
      text.textContent = excerpt(hit.text, hit.terms);
      link.append(text); item.append(link);
      return item;
    }));
    if (input.value && !found.length) {
      const none = document.createElement("li");
      none.className = "none"; none.textContent = "Nothing was found.";
      list.append(none);
    }
    list.hidden = !input.value;
    input.setAttribute("aria-expanded", String(!list.hidden));
    input.removeAttribute("aria-activedescendant");
  };
  input.addEventListener("input", show);
  input.addEventListener("keydown", (event) => {
    const links = options();
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      selected = links.length ? (selected + (event.key === "ArrowDown" ? 1 : links.length - 1) + links.length) % links.length : -1;
      links.forEach((link, i) => link.parentElement.setAttribute("aria-selected", String(i === selected)));
      if (selected >= 0) input.setAttribute("aria-activedescendant", `found-${selected}`);
    } else if (event.key === "Escape") {
      input.value = ""; show();
    }
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const link = options()[Math.max(0, selected)];
    if (link) location.href = link.href;
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && !/^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) {
      event.preventDefault(); input.focus();
    }
  });
}

// Each version has a folder of its own; versions.js beside them lists them.
function setUpVersions() {
  const script = document.createElement("script");
  script.src = root + "../versions.js";
  script.onload = () => {
    const { current, all } = window.docsVersions;
    if (all.length < 2) return;
    const select = document.getElementById("versions");
    const here = document.querySelector(".brand small").textContent.trim();
    select.replaceChildren(...all.map((v) => new Option(v === current ? `${v} (newest)` : v, v, false, v === here)));
    select.hidden = false;
    select.addEventListener("change", () => { location.href = `${root}../${select.value}/index.html`; });
  };
  document.head.append(script);
}

setUpSearch();
setUpVersions();
