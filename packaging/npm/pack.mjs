// Packs the npm packages from the binaries of a release: one package per platform, and "espalier", which depends on
// all of them optionally, so that npm installs the one that fits.
//
//   node packaging/npm/pack.mjs DIST VERSION
import { execFileSync } from "node:child_process";
import { chmodSync, copyFileSync, cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";

const [dist, version] = process.argv.slice(2);
if (!dist || !version) {
  console.error("usage: node packaging/npm/pack.mjs DIST VERSION");
  process.exit(2);
}
const here = import.meta.dirname ?? new URL(".", import.meta.url).pathname;
const base = JSON.parse(readFileSync(join(here, "package.json"), "utf8"));
const out = resolve(dist, "npm"); // npm runs in the folders of the packages
rmSync(out, { recursive: true, force: true });

// go's names of systems and processors, and those of Node.js
const systems = { linux: "linux", darwin: "darwin", windows: "win32" };
const processors = { amd64: "x64", arm64: "arm64" };

function pack(folder) {
  execFileSync("npm", ["pack", "--silent", "--pack-destination", out], { cwd: folder, stdio: ["ignore", "ignore", "inherit"] });
}

const platforms = {};
// The builds end in any order; sorted, they give the same bytes.
const artifacts = JSON.parse(readFileSync(join(dist, "artifacts.json"), "utf8"));
artifacts.sort((a, b) => (a.path < b.path ? -1 : 1));
for (const artifact of artifacts) {
  if (artifact.type !== "Binary") continue;
  const os = systems[artifact.goos], cpu = processors[artifact.goarch];
  const name = `espalier-${os}-${cpu}`, folder = join(out, name), program = os === "win32" ? "espalier.exe" : "espalier";
  mkdirSync(join(folder, "bin"), { recursive: true });
  copyFileSync(artifact.path, join(folder, "bin", program));
  chmodSync(join(folder, "bin", program), 0o755);
  writeFileSync(join(folder, "package.json"), JSON.stringify({
    name, version, description: `${base.description} (${os} ${cpu})`, license: base.license, repository: base.repository,
    os: [os], cpu: [cpu], files: ["bin"],
  }, null, 2));
  pack(folder);
  platforms[name] = version;
}
const folder = join(out, "espalier");
cpSync(here, folder, { recursive: true, filter: (path) => !path.endsWith("pack.mjs") });
writeFileSync(join(folder, "package.json"), JSON.stringify({ ...base, version, optionalDependencies: platforms }, null, 2));
pack(folder);
