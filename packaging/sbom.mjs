// Writes the parts list of a program as CycloneDX, from what the Go linker has recorded in the program itself. The same
// program gives the same bytes: there is no time and no serial number.
//
//   node packaging/sbom.mjs PROGRAM FILE VERSION
import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";

const [program, file, version] = process.argv.slice(2);
if (!program || !file || !version) {
  console.error("usage: node packaging/sbom.mjs PROGRAM FILE VERSION");
  process.exit(2);
}
const built = JSON.parse(execFileSync("go", ["version", "-m", "-json", program], { encoding: "utf8" }));

function component(type, path, version) {
  const purl = `pkg:golang/${path}@${encodeURIComponent(version)}`;
  return { type, "bom-ref": purl, name: path, version, purl };
}

const main = component("application", built.Main.Path, version);
const parts = [
  component("library", "std", built.GoVersion.replace(/^go/, "")),
  ...built.Deps.map((dep) => dep.Replace ?? dep).map((dep) => component("library", dep.Path, dep.Version)),
];
writeFileSync(file, JSON.stringify({
  bomFormat: "CycloneDX", specVersion: "1.5", version: 1,
  metadata: { component: main },
  components: parts,
  dependencies: [{ ref: main["bom-ref"], dependsOn: parts.map((part) => part["bom-ref"]) }],
}, null, 2) + "\n");
