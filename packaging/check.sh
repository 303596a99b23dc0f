#!/usr/bin/env bash
# Checks the release in a folder: checksums, the binary's version, the deb package in a chroot, the npm packages through
# npx, the image, the form of rpm, apk and formula, and that a second build elsewhere, without a network, gives the same
# checksums. REBUILD=no leaves out the second build, which takes as long as the release.
# TestGitHubActionRunsItsScripts in cmd/espalier checks the Action.
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
built="espalier $version ($(git -C "$repo" show --no-patch --format=%H | cut -c1-12), "
"$work/archive/espalier" version | grep -F "$built" | grep -E ', 20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9:]+Z[,)]' >/dev/null
for binary in "$dist"/espalier_linux_*/espalier; do
	if go tool nm "$binary" 2>/dev/null | grep -q .; then echo "$binary is not stripped" >&2; exit 1; fi
done
test -s "$work/archive/man/espalier-run.1" -a -s "$work/archive/completions/espalier.bash"
say "espalier_${version}_linux_amd64.tar.gz" "$("$work/archive/espalier" version)"

deb=$dist/espalier_${version}_linux_amd64.deb
if command -v dpkg >/dev/null; then
	mkdir -p "$work/chroot/var/lib/dpkg/"{info,updates,triggers} && touch "$work/chroot/var/lib/dpkg/status"
	dpkg --root="$work/chroot" --force-depends --force-not-root --force-script-chrootless -i "$deb" >/dev/null
	unshare --map-root-user chroot "$work/chroot" /usr/bin/espalier version | grep -F "espalier $version" >/dev/null
	dpkg --root="$work/chroot" --force-not-root -r espalier >/dev/null
	test ! -e "$work/chroot/usr/bin/espalier"
	say "$(basename "$deb")" "installed in a chroot, run and removed"
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

image=$dist/espalier_${version}_image.oci.tar
mkdir "$work/image" && tar xf "$image" -C "$work/image"
for blob in "$work/image/blobs/sha256/"*; do
	[ "$(sha256sum < "$blob")" = "$(basename "$blob")  -" ]
done
if command -v buildah >/dev/null; then
	store=(buildah --storage-driver vfs --root "$work/images" --runroot "$work/run")
	id=$("${store[@]}" pull --quiet "oci-archive:$image")
	"${store[@]}" inspect --type image "$id" | grep -F '"User": "65532:65532"' >/dev/null
	made=$("${store[@]}" from "$id") && root=$("${store[@]}" mount "$made")
	unshare --map-root-user chroot "$root" /espalier version | grep -F "espalier $version" >/dev/null
	"${store[@]}" rm "$made" >/dev/null
	say "$(basename "$image")" "pulled by buildah and run"
else
	say "$(basename "$image")" "digests checked; untried: no buildah here"
fi

if [ "${REBUILD:-yes}" = yes ]; then
	git clone -q "$repo" "$work/elsewhere"
	(cd "$work/elsewhere" && GOPROXY=off unshare --map-root-user --net make -s release) > "$work/log" 2>&1 ||
		{ tail -40 "$work/log" >&2; exit 1; }
	diff "$dist/checksums.txt" "$work/elsewhere/dist/checksums.txt"
	say "second build in another folder, without a network" "same checksums"
fi
