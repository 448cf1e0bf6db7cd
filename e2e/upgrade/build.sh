#!/usr/bin/env bash
# build.sh BIN COMMIT: builds the hub and the agent of an earlier commit into BIN/upgrade-COMMIT, beside its definitions.
# The commit does not change, so what is there stays.
set -euo pipefail
bin=$1 commit=$2 out=$1/upgrade-$2
[ ! -d "$out" ] || exit 0
git cat-file -e "$commit^{commit}" 2> /dev/null || {
  echo "this checkout has no commit $commit: fetch the whole history, for example with git fetch --unshallow" >&2
  exit 1
}
echo "building the programs of $commit (about 1 min the first time)"
mkdir -p "$bin"
new=$(mktemp -d "$bin/.upgrade.XXXXXX")
trap 'rm -rf "$new"' EXIT
mkdir "$new/source" "$new/out" "$new/out/definitions"
git archive "$commit" | tar -x -C "$new/source"
(cd "$new/source" && CGO_ENABLED=0 go build -trimpath -buildvcs=false -tags grpcnotrace -ldflags "-s -w" \
  -o ../out/ ./cmd/flotilla-hub ./cmd/flotilla-agent)
cp "$new"/source/apis/crds/*.yaml "$new/out/definitions/"
mv "$new/out" "$out"
