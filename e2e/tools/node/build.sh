#!/usr/bin/env bash
# build.sh BIN kind: builds kind from Go modules into BIN. build.sh BIN node: builds what a node image is made of into BIN/node, beside the control
# plane, which `make setup` builds into BIN. It prints its progress. Nothing is built again while modules and sources are the same.
set -euo pipefail
BIN=$(cd "$1" && pwd); OUT=$BIN/node
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
mkdir -p "$OUT"
export CGO_ENABLED=0
# built NAME FILE...: tells whether NAME was built of these files; remember says that it was.
key() { cat "$@" "$HERE/build.sh" | git hash-object --stdin; }
built() { local name=$1; shift; [ "$(cat "$OUT/.$name" 2>/dev/null)" = "$(key "$@")" ]; }
remember() { local name=$1; shift; key "$@" > "$OUT/.$name"; }

KUBE=$(sed -n 's|^require k8s.io/kubernetes \(v[0-9.]*\).*|\1|p' "$HERE/go.mod")
MINOR=${KUBE#v*.}; MINOR=${MINOR%%.*}
STAMP="-s -w"
for p in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
  STAMP+=" -X $p.gitVersion=$KUBE -X $p.gitMajor=1 -X $p.gitMinor=$MINOR"
done
# build FILE MODULE PACKAGE: the program takes its place when it is whole.
build() {
  local start=$SECONDS
  (cd "$HERE/../$2" && go build -trimpath -mod=readonly -ldflags "$STAMP" -o "$1.new" "$3")
  mv "$1.new" "$1"; echo "${1##*/} built in $((SECONDS - start)) s"
}

case $2 in
  kind)
    of=("$HERE"/../kind/go.{mod,sum})
    if built kind "${of[@]}" && [ -x "$BIN/kind" ]; then exit 0; fi
    build "$BIN/kind" kind sigs.k8s.io/kind
    remember kind "${of[@]}" ;;
  node)
    of=("$HERE"/go.{mod,sum} "$HERE"/../{kind,coredns}/go.{mod,sum} "$HERE"/*/main.go "$HERE"/../coredns/main.go)
    if built node "${of[@]}"; then exit 0; fi
    echo "building what nodes run (about 4 min of CPU the first time)"
    for name in kubelet kubeadm kube-proxy; do build "$OUT/$name" node k8s.io/kubernetes/cmd/$name; done
    for name in routes pause runcwrap; do build "$OUT/$name" node ./$name; done
    build "$OUT/crictl" kind sigs.k8s.io/cri-tools/cmd/crictl
    build "$OUT/coredns" coredns .
    remember node "${of[@]}" ;;
  *) echo "build.sh: $2 is not known: give kind or node" >&2; exit 2 ;;
esac
