// Relative times and running durations, counted once a second where they can be seen.
function span(s) {
  if (s < 60) return Math.floor(s) + " s";
  if (s < 3600) return Math.floor(s / 60) + " min";
  if (s < 48 * 3600) return Math.floor(s / 3600) + " h";
  return Math.floor(s / 86400) + " days";
}

// The same rules as report.Duration, in whole seconds.
function took(s) {
  const parts = (a, long, b, short) => a + " " + long + (b ? " " + b + " " + short : "");
  s = Math.floor(s);
  if (s < 60) return s + " s";
  if (s < 3600) return parts(Math.floor(s / 60), "min", s % 60, "s");
  if (s < 48 * 3600) return parts(Math.floor(s / 3600), "h", Math.floor(s / 60) % 60, "min");
  return parts(Math.floor(s / 86400), "days", Math.floor(s / 3600) % 24, "h");
}

function tick() {
  if (document.hidden) return;
  for (const el of document.querySelectorAll("time[data-ago]")) {
    const s = (Date.now() - Date.parse(el.dateTime)) / 1000;
    const text = s < -1 ? "in " + span(-s) : span(Math.max(s, 0)) + " ago";
    if (el.textContent !== text) el.textContent = text;
  }
  for (const el of document.querySelectorAll("[data-since]")) {
    const s = (Date.now() - Date.parse(el.dataset.since)) / 1000, text = took(Math.max(s, 0));
    if (el.textContent !== text) el.textContent = text;
  }
}

setInterval(tick, 1000);
document.addEventListener("visibilitychange", tick);
