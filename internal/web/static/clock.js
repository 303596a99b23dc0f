// Relative times and running durations, counted once a second where they can be seen.
function span(s) {
  if (s < 60) return Math.floor(s) + " s";
  if (s < 3600) return Math.floor(s / 60) + " min";
  if (s < 48 * 3600) return Math.floor(s / 3600) + " h";
  return Math.floor(s / 86400) + " days";
}

function tick() {
  if (document.hidden) return;
  for (const el of document.querySelectorAll("time[data-ago]")) {
    const s = (Date.now() - Date.parse(el.dateTime)) / 1000;
    const text = s < -1 ? "in " + span(-s) : span(Math.max(s, 0)) + " ago";
    if (el.textContent !== text) el.textContent = text;
  }
  for (const el of document.querySelectorAll("[data-since]")) {
    const s = (Date.now() - Date.parse(el.dataset.since)) / 1000;
    el.textContent = span(Math.max(s, 0));
  }
}

setInterval(tick, 1000);
document.addEventListener("visibilitychange", tick);
