#!/usr/bin/env bash
# run.sh BIN TAG [NODE_IMAGE]: runs the tests of this folder with the programs' images of TAG (`make images`). The node image is
#   NODE_IMAGE, if it is given, as docker has it or can pull it;
#   else kind's own, where a docker daemon runs;
#   else one of ours. Then there is no docker: this starts a daemon of its own and ends it, makes the image once, and reaches no registry.
#     That needs root and Debian; packages that are missing are installed.
# What is kept from run to run is in .kind. FLOTILLA_KEEP_CLUSTERS=1 keeps the clusters, and the daemon; TESTFLAGS are go test's.
set -euo pipefail
BIN=$1; TAG=$2; NODE_IMAGE=${3:-}
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd); KEEP=$ROOT/.kind
TOOLS=$ROOT/e2e/tools
cd "$ROOT"; mkdir -p "$KEEP"
start=$SECONDS
step() { echo "==> $* ($((SECONDS - start)) s)"; }

# Each kubelet, kube-proxy and containerd takes some of these; with the 128 of many machines the last nodes never come up, and say "too many open files".
watches=/proc/sys/fs/inotify/max_user_instances
if [ "$(cat $watches)" -lt 1024 ] && ! echo 1024 2> /dev/null > $watches; then
  echo "seven nodes need more than $(cat $watches) inotify instances: run \`sudo sysctl fs.inotify.max_user_instances=1024\`" >&2; exit 1
fi

"$TOOLS/build.sh" "$BIN" kubectl
"$TOOLS/node/build.sh" "$BIN" kind

# One program under two versions, and the programs once more under another tag, to be upgraded to.
arch=$(go env GOARCH)
for version in 1 2; do
  CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags "-s -w -X main.version=$version" -o "$KEEP/app" ./e2e/kind/app
  go run ./e2e/tools/images -out "$KEEP/images/$version" -tag $version -version $version -programs app "$arch=$KEEP" > /dev/null
done
# The registry that nodes pull from.
CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags "-s -w" -o "$KEEP/registry" ./e2e/kind/registry
go run ./e2e/tools/images -out "$KEEP/images/next" -tag "$TAG-next" -version next \
  -programs flotilla-hub,flotilla-agent "$arch=$BIN" > /dev/null
step "images of pods and programs are there"

if ! docker info > /dev/null 2>&1; then
  missing=()
  for pair in dockerd:docker.io containerd:containerd runc:runc iptables:iptables debootstrap:debootstrap; do
    PATH=$PATH:/usr/sbin:/sbin command -v "${pair%%:*}" > /dev/null || missing+=("${pair#*:}")
  done
  if [ ${#missing[@]} -gt 0 ]; then
    if [ "$(id -u)" != 0 ] || ! command -v apt-get > /dev/null; then
      echo "no docker daemon answers, and ${missing[*]} are not installed: start docker, or run this as root on Debian" >&2; exit 1
    fi
    step "installing ${missing[*]}"
    apt-get update -q > /dev/null; apt-get install -qy --no-install-recommends "${missing[@]}" > "$KEEP/apt.log"
  fi
  "$TOOLS/build.sh" "$BIN" etcd kube-apiserver kube-controller-manager kube-scheduler
  "$TOOLS/node/build.sh" "$BIN" node
  # The path of a socket has to be short.
  run=$(mktemp -d /tmp/flotilla-docker.XXXXXX)
  export DOCKER_HOST=unix://$run/docker.sock
  dockerd --host "$DOCKER_HOST" --data-root "$KEEP/docker" --exec-root "$run/exec" --pidfile "$run/pid" --bridge none \
    --add-runtime node="$BIN/node/runcwrap" --default-runtime node > "$KEEP/dockerd.log" 2>&1 &
  daemon=$!
  finish() {
    if [ -n "${FLOTILLA_KEEP_CLUSTERS:-}" ]; then echo "==> docker goes on: export DOCKER_HOST=$DOCKER_HOST NODE_IMAGE=$NODE_IMAGE; end it with kill $daemon"; return; fi
    kill $daemon 2> /dev/null || true; wait $daemon || true; rm -rf "$run"
  }
  trap finish EXIT
  for _ in $(seq 300); do
    ! docker info > /dev/null 2>&1 || break
    kill -0 $daemon 2> /dev/null || { tail -5 "$KEEP/dockerd.log" >&2; echo "dockerd ended: its log is $KEEP/dockerd.log" >&2; exit 1; }
    sleep 0.2
  done
  step "a docker daemon of our own runs"
  if [ -z "$NODE_IMAGE" ]; then
    # The tag is what the image is made of.
    NODE_IMAGE=flotilla-node:$(cat "$TOOLS"/node/{image.sh,go.sum} "$TOOLS"/node/*/main.go "$TOOLS"/coredns/{main.go,go.sum} \
      $(find "$TOOLS/node/files" -type f | sort) | sha256sum | cut -c1-12)
    docker image inspect "$NODE_IMAGE" > /dev/null 2>&1 || "$TOOLS/node/image.sh" "$BIN" "$KEEP/image" "$NODE_IMAGE"
  fi
fi
step "node image: ${NODE_IMAGE:-that of kind}"
status=0
FLOTILLA_NODE_IMAGE=$NODE_IMAGE FLOTILLA_IMAGE_TAG=$TAG go test -tags e2e -count 1 -timeout 30m -v ${TESTFLAGS:-} ./e2e/kind || status=$?
step "done"
exit $status
