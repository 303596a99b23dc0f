#!/usr/bin/env node
// Starts the program of the platform package that npm has installed with this one.
"use strict";
const { spawn } = require("node:child_process");
const { constants } = require("node:os");

const platform = `espalier-${process.platform}-${process.arch}`;
const name = process.platform === "win32" ? "espalier.exe" : "espalier";
let program;
try {
  program = require.resolve(`${platform}/bin/${name}`);
} catch {
  console.error(`espalier: the package ${platform} is not installed. Either there is no build for this platform, ` +
    "or npm was told to leave out optional dependencies.");
  process.exit(6);
}
const child = spawn(program, process.argv.slice(2), { stdio: "inherit" });
child.on("error", (err) => {
  console.error(`espalier: ${err.message}`);
  process.exit(6);
});
// The terminal sends its signals to both processes; signals from elsewhere are passed on.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) {
  process.on(signal, () => child.kill(signal));
}
child.on("exit", (code, signal) => process.exit(signal ? 128 + constants.signals[signal] : code));
