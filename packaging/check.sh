#!/usr/bin/env bash
# Checks the release in a folder: checksums, the binary's version, the deb package in a folder of its own, the npm
# packages through npx, the form of rpm, apk, formula and Action, and that a second build elsewhere gives the same
# checksums. REBUILD=no leaves out the second build, which takes as long as the release.
set -euo pipefail
dist=$(realpath "${1:?usage: packaging/check.sh DIST VERSION}")
version=${2:?usage: packaging/check.sh DIST VERSION}
repo=$(realpath "$(dirname "$0")/..")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
say() { printf '%-60s %s\n' "$1" "$2"; }

(cd "$dist" && sha256sum --quiet -c checksums.txt)
say "checksums.txt" "$(wc -l < "$dist/checksums.txt") files"

mkdir "$work/archive"
tar xzf "$dist/espalier_${version}_linux_amd64.tar.gz" -C "$work/archive"
"$work/archive/espalier" version | grep -F "espalier $version (" >/dev/null
test -s "$work/archive/man/espalier-run.1" -a -s "$work/archive/completions/espalier.bash"
say "espalier_${version}_linux_amd64.tar.gz" "$("$work/archive/espalier" version)"

deb=$dist/espalier_${version}_linux_amd64.deb
if command -v dpkg >/dev/null; then
	mkdir -p "$work/root/var/lib/dpkg/"{info,updates,triggers} && touch "$work/root/var/lib/dpkg/status"
	dpkg --root="$work/root" --force-depends --force-not-root --force-script-chrootless -i "$deb" >/dev/null
	"$work/root/usr/bin/espalier" version | grep -F "espalier $version" >/dev/null
	dpkg --root="$work/root" --force-not-root -r espalier >/dev/null
	test ! -e "$work/root/usr/bin/espalier"
	say "$(basename "$deb")" "installed, run and removed"
else
	say "$(basename "$deb")" "untried: no dpkg here"
fi

node=$(node -p '`espalier-${process.platform}-${process.arch}`')
(cd "$work" && npx --yes --offline --package="$dist/npm/$node-$version.tgz" --package="$dist/npm/espalier-$version.tgz" \
	espalier version) | grep -F "espalier $version" >/dev/null
say "npm/espalier-$version.tgz" "run through npx"

rpm=$dist/espalier_${version}_linux_amd64.rpm apk=$dist/espalier_${version}_linux_amd64.apk
[ "$(head -c 4 "$rpm" | od -An -tx1 | tr -d ' ')" = edabeedb ]
tar tzf "$apk" 2>/dev/null | grep -Fx usr/bin/espalier >/dev/null
say "$(basename "$rpm"), $(basename "$apk")" "form checked; untried"
if command -v ruby >/dev/null; then ruby -c "$dist/homebrew/espalier.rb" >/dev/null; fi
grep -F "version \"$version\"" "$dist/homebrew/espalier.rb" >/dev/null
say "homebrew/espalier.rb" "form checked; untried"
for os in linux darwin windows; do for arch in amd64 arm64; do
	python3 -c 'import json, sys; d = json.load(open(sys.argv[1])); assert d["bomFormat"] == "CycloneDX" and len(d["components"]) > 50' \
		"$dist/espalier_${version}_${os}_$arch.cdx.json"
done; done
say "*.cdx.json" "CycloneDX"

if [ "${REBUILD:-yes}" = yes ]; then
	git clone -q "$repo" "$work/elsewhere"
	(cd "$work/elsewhere" && make -s release >/dev/null 2>&1)
	diff "$dist/checksums.txt" "$work/elsewhere/dist/checksums.txt"
	say "second build in another folder" "same checksums"
fi
