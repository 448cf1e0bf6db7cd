#!/usr/bin/env bash
# build.sh OUT NAME...: builds the named tools from Go modules into OUT and prints its progress.
# A tool is built again only when its module files changed since the binary was made.
set -euo pipefail
mkdir -p "$1/.built"
OUT=$(cd "$1" && pwd); shift
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export CGO_ENABLED=0
# The Kubernetes version that the API server reports; it must be stamped, or it says v0.0.0.
KUBE=$(sed -n 's/^require k8s.io\/kubernetes \(v[0-9.]*\).*/\1/p' "$HERE/controlplane/go.mod")
MAJOR=${KUBE#v}; MAJOR=${MAJOR%%.*}; MINOR=${KUBE#v*.}; MINOR=${MINOR%%.*}
STAMP="-s -w"
for p in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
  STAMP+=" -X $p.gitVersion=$KUBE -X $p.gitMajor=$MAJOR -X $p.gitMinor=$MINOR"
done
i=0
for name in "$@"; do
  i=$((i + 1)); flags="-s -w"; note=
  case $name in
    etcd) mod=controlplane pkg=go.etcd.io/etcd/server/v3; note=" (about 50 s the first time)" ;;
    etcdctl|etcdutl) mod=etcd pkg=go.etcd.io/etcd/$name/v3; note=" (about 50 s the first time)" ;;
    kube-apiserver) mod=controlplane pkg=k8s.io/kubernetes/cmd/$name flags=$STAMP; note=" (about 3 min the first time)" ;;
    kube-*|kubectl) mod=controlplane pkg=k8s.io/kubernetes/cmd/$name flags=$STAMP; note=" (about 1 min the first time)" ;;
    kwok|kwokctl) mod=kwok pkg=sigs.k8s.io/kwok/cmd/$name; note=" (about 1 min the first time)" ;;
    controller-gen) mod=dev pkg=sigs.k8s.io/controller-tools/cmd/$name ;;
    golangci-lint) mod=lint pkg=github.com/golangci/golangci-lint/v2/cmd/$name; note=" (about 3 min the first time)" ;;
    *) echo "build.sh: unknown tool $name" >&2; exit 2 ;;
  esac
  key=$(cat "$HERE/$mod/go.mod" "$HERE/$mod/go.sum" "$HERE/build.sh" | git hash-object --stdin)
  if [ -x "$OUT/$name" ] && [ "$(cat "$OUT/.built/$name" 2>/dev/null)" = "$key" ]; then continue; fi
  echo "[$i/$#] building $name$note"
  start=$SECONDS
  (cd "$HERE/$mod" && go build -trimpath -mod=readonly -ldflags "$flags" -o "$OUT/$name.new" "$pkg")
  mv "$OUT/$name.new" "$OUT/$name"; echo "$key" > "$OUT/.built/$name"
  echo "[$i/$#] $name built in $((SECONDS - start)) s"
done
