// Records commands in a terminal and writes an animated SVG. The output and its timing are real; long pauses are cut.
//
//   node docs/recording/record.mjs SESSION.json OUT.svg
//
// xterm.js interprets what the programs write. "make recording" installs it.
import { spawn } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";

const [sessionFile, out] = process.argv.slice(2);
const { columns, rows, commands } = JSON.parse(readFileSync(sessionFile, "utf8"));
const { Terminal } = createRequire(process.env.NODE_PATH + "/")("@xterm/headless");
const term = new Terminal({ cols: columns, rows, scrollback: 0, allowProposedApi: true, convertEol: false });
const write = (data) => new Promise((done) => term.write(data, done));

// A frame is a picture of the screen and how long it is shown, in seconds.
const frames = [];
const longest = 1.2;

const palette = ["#1b211e", "#d13b31", "#4c963b", "#c87a10", "#2f73de", "#9650b8", "#14a3a0", "#e9edea"];

// line returns the runs of one line of the screen: text with the same look.
function line(y) {
  const row = term.buffer.active.getLine(term.buffer.active.baseY + y), runs = [];
  for (let x = 0; x < columns; x++) {
    const cell = row.getCell(x), text = cell.getChars() || " ";
    if (cell.getWidth() === 0) continue;
    const look = [cell.isFgDefault() ? "" : palette[cell.getFgColor() % 8], cell.isBold() ? "b" : "", cell.isDim() ? "d" : ""].join();
    const last = runs.at(-1);
    if (last?.look === look) last.text += text;
    else runs.push({ look, x, text });
  }
  return runs.map((r) => ({ ...r, text: r.text.trimEnd() })).filter((r) => r.text !== "");
}

function picture() {
  return Array.from({ length: rows }, (_, y) => JSON.stringify(line(y)));
}

function shoot(seconds) {
  const now = picture(), last = frames.at(-1);
  if (last && last.lines.join() === now.join()) last.seconds += seconds;
  else frames.push({ lines: now, seconds });
}

async function type(text) {
  await write("\x1b[32m$\x1b[0m ");
  shoot(0.6);
  for (const [i, c] of [...text].entries()) {
    await write(c);
    if (i % 3 === 2) shoot(0.09);
  }
  await write("\r\n");
  shoot(0.3);
}

async function run(command, answer) {
  const child = spawn("script", ["-qefc", `stty cols ${columns} rows ${rows}; ${command}`, "/dev/null"],
    { stdio: ["pipe", "pipe", "inherit"], env: { ...process.env, TERM: "xterm-256color", COLUMNS: String(columns) } });
  let last = performance.now();
  for await (const data of child.stdout) {
    const now = performance.now(), passed = (now - last) / 1000;
    if (passed > 0.04) {
      shoot(Math.min(passed, longest));
      last = now;
    }
    await write(data);
    if (answer && data.toString().includes(answer.to)) {
      shoot(2);
      child.stdin.write(answer.type + "\n");
      last = performance.now();
    }
  }
  shoot(0.2);
}

for (const { show, run: command, answer, pause } of commands) {
  await type(show);
  await run(command ?? show, answer);
  shoot(pause ?? 1.5);
}

// The film is one picture beside the other; an animation in steps shows one at a time. Lines that several pictures share
// are written once.
const size = 14, width = size * 0.6, height = size * 1.45, pad = 16;
const w = Math.ceil(columns * width + 2 * pad), h = Math.ceil(rows * height + 2 * pad);
const escape = (s) => s.replace(/[&<>]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;" })[c]);
const symbols = new Map();
function symbol(text) {
  if (!symbols.has(text)) symbols.set(text, `l${symbols.size}`);
  return symbols.get(text);
}
const total = frames.reduce((sum, f) => sum + f.seconds, 0);
let at = 0, keys = "", film = "";
frames.forEach((f, i) => {
  keys += `${((at / total) * 100).toFixed(3)}%{transform:translateX(-${i * w}px)}`;
  at += f.seconds;
  film += `<g transform="translate(${i * w})">`;
  f.lines.forEach((text, y) => {
    if (text !== "[]") film += `<use href="#${symbol(text)}" y="${((y + 1) * height).toFixed(1)}"/>`;
  });
  film += "</g>";
});
let defs = "";
for (const [text, id] of symbols) {
  const spans = JSON.parse(text).map(({ look, x, text }) => {
    const [color, bold, dim] = look.split(",");
    const style = (color ? ` fill="${color}"` : "") + (bold ? ' font-weight="600"' : "") + (dim ? ' opacity=".7"' : "");
    return `<tspan x="${(x * width).toFixed(1)}"${style}>${escape(text)}</tspan>`;
  });
  defs += `<text id="${id}" xml:space="preserve">${spans.join("")}</text>`;
}
writeFileSync(out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${w} ${h}" width="${w}" height="${h}" role="img">
<title>${escape(commands.map((c) => c.show).join("; "))}</title>
<style>
text{font:${size}px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;fill:#e9edea}
#film{animation:film ${total.toFixed(1)}s steps(1,end) infinite}
@keyframes film{${keys}}
@media (prefers-reduced-motion:reduce){#film{animation:none;transform:translateX(-${(frames.length - 1) * w}px)}}
</style>
<defs>${defs}<clipPath id="screen"><rect width="${w}" height="${h}"/></clipPath></defs>
<rect width="${w}" height="${h}" rx="10" fill="#0e1210"/>
<g clip-path="url(#screen)"><g transform="translate(${pad} ${pad - 4})"><g id="film">${film}</g></g></g>
</svg>
`);
console.log(`${out}: ${frames.length} pictures, ${total.toFixed(1)} s`);
