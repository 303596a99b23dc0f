// Writes the container image of a release as an OCI image layout in a tar archive, for linux/amd64 and linux/arm64,
// from the same recipe as deploy/Containerfile. It needs no container tools, and the same files give the same bytes.
//
//   node packaging/image.mjs DIST VERSION
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";

const [dist, version] = process.argv.slice(2);
if (!dist || !version) {
  console.error("usage: node packaging/image.mjs DIST VERSION");
  process.exit(2);
}
const here = import.meta.dirname ?? new URL(".", import.meta.url).pathname;
const authorities = process.env.CERTIFICATES ?? "/etc/ssl/certs/ca-certificates.crt";
if (!existsSync(authorities)) {
  console.error(`${authorities} is missing: install ca-certificates, or set CERTIFICATES to a file of PEM certificates.`);
  process.exit(1);
}

// tar writes files and folders (names that end with "/") as root, without times.
function tar(entries) {
  const blocks = [];
  for (const { name, data = Buffer.alloc(0), mode } of entries) {
    const folder = name.endsWith("/"), header = Buffer.alloc(512);
    const octal = (n, at, length) => header.write(n.toString(8).padStart(length - 1, "0"), at);
    header.write(name, 0);
    octal(mode, 100, 8), octal(0, 108, 8), octal(0, 116, 8), octal(data.length, 124, 12), octal(0, 136, 12);
    header.write(" ".repeat(8), 148);
    header.write(folder ? "5" : "0", 156);
    header.write("ustar\u000000", 257);
    const sum = header.reduce((a, b) => a + b, 0);
    header.write(sum.toString(8).padStart(6, "0") + "\0 ", 148);
    blocks.push(header, data, Buffer.alloc((512 - (data.length % 512)) % 512));
  }
  return Buffer.concat([...blocks, Buffer.alloc(1024)]);
}

const digest = (data) => createHash("sha256").update(data).digest("hex");
const blobs = new Map();
function put(mediaType, data) {
  blobs.set(digest(data), data);
  return { mediaType, digest: `sha256:${digest(data)}`, size: data.length };
}
const json = (value) => Buffer.from(JSON.stringify(value));
const oci = (name) => `application/vnd.oci.image.${name}`;

// instructions returns the arguments of the lines of the recipe that begin with a word.
const recipe = readFileSync(join(here, "..", "deploy", "Containerfile"), "utf8");
const instructions = (word) => [...recipe.matchAll(new RegExp(`^${word} (.*)$`, "gm"))].map((m) => m[1]);
const [workdir] = instructions("WORKDIR");
const copied = instructions("COPY").map((line) => line.split(" "));

const committed = execFileSync("git", ["show", "--no-patch", "--format=%ct"], { cwd: here, encoding: "utf8" });
const created = new Date(Number(committed) * 1000).toISOString();
const manifests = [];
// The builds end in any order; sorted, they give the same bytes.
const artifacts = JSON.parse(readFileSync(join(dist, "artifacts.json"), "utf8"));
artifacts.sort((a, b) => (a.path < b.path ? -1 : 1));
for (const artifact of artifacts) {
  if (artifact.type !== "Binary" || artifact.goos !== "linux") continue;
  const sources = { espalier: artifact.path, "ca-certificates.crt": authorities };
  const folders = new Set([`${workdir.slice(1)}/`]);
  for (const [, to] of copied) {
    const parts = to.slice(1).split("/").slice(0, -1);
    parts.forEach((_, i) => folders.add(`${parts.slice(0, i + 1).join("/")}/`));
  }
  const layer = tar([
    ...[...folders].sort().map((name) => ({ name, mode: 0o755 })),
    ...copied.map(([from, to]) => ({
      name: to.slice(1), data: readFileSync(sources[from]), mode: from === "espalier" ? 0o755 : 0o644,
    })),
  ]);
  const platform = { architecture: artifact.goarch, os: "linux" };
  const config = put(oci("config.v1+json"), json({
    created, ...platform,
    config: {
      User: instructions("USER")[0], Env: instructions("ENV")[0].split(" "), WorkingDir: workdir,
      ExposedPorts: { [`${instructions("EXPOSE")[0]}/tcp`]: {} },
      Entrypoint: JSON.parse(instructions("ENTRYPOINT")[0]), Cmd: JSON.parse(instructions("CMD")[0]),
      Labels: { "org.opencontainers.image.version": version, "org.opencontainers.image.licenses": "Apache-2.0" },
    },
    rootfs: { type: "layers", diff_ids: [`sha256:${digest(layer)}`] },
    history: [{ created, created_by: "deploy/Containerfile" }],
  }));
  const layers = [put(oci("layer.v1.tar+gzip"), gzipSync(layer, { level: 9 }))];
  const manifest = put(oci("manifest.v1+json"), json({
    schemaVersion: 2, mediaType: oci("manifest.v1+json"), config, layers,
  }));
  manifests.push({ ...manifest, platform });
}
const index = put(oci("index.v1+json"), json({ schemaVersion: 2, mediaType: oci("index.v1+json"), manifests }));
const named = { ...index, annotations: { "org.opencontainers.image.ref.name": version } };
writeFileSync(join(dist, `espalier_${version}_image.oci.tar`), tar([
  { name: "oci-layout", data: json({ imageLayoutVersion: "1.0.0" }), mode: 0o644 },
  {
    name: "index.json", mode: 0o644,
    data: json({ schemaVersion: 2, mediaType: oci("index.v1+json"), manifests: [named] }),
  },
  { name: "blobs/", mode: 0o755 },
  { name: "blobs/sha256/", mode: 0o755 },
  ...[...blobs].map(([name, data]) => ({ name: `blobs/sha256/${name}`, data, mode: 0o644 })),
]));
