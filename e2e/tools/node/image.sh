#!/usr/bin/env bash
# image.sh BIN WORK IMAGE: makes a node image for kind from Debian packages and Go modules, where no registry is reached.
# BIN has what build.sh and `make setup` built; WORK keeps Debian's base system (base.tar), so that the next image takes half a minute.
# Needs root, debootstrap, containerd and docker. MIRROR is the Debian mirror, else that of this machine.
set -euo pipefail
BIN=$(cd "$1" && pwd); mkdir -p "$2"; WORK=$(cd "$2" && pwd); IMAGE=$3
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
ROOT=$WORK/root
step() { echo "node image: $* ($((SECONDS)) s)"; }

KUBE=$("$BIN/node/kubelet" --version); KUBE=${KUBE##* }
if [ "$("$BIN/kube-apiserver" --version)" != "Kubernetes $KUBE" ]; then
  echo "image.sh: the kubelet is $KUBE and the API server is $("$BIN/kube-apiserver" --version): give e2e/tools/node and e2e/tools/controlplane the same version" >&2
  exit 1
fi

# bookworm has the newest systemd (252) of Debian that starts where there is only the first version of cgroups.
SUITE=bookworm
PACKAGES=systemd,systemd-sysv,dbus,containerd,runc,containernetworking-plugins,iptables,nftables,conntrack,iproute2,ethtool,socat,kmod,mount,util-linux,procps,psmisc,ca-certificates,curl,hostname,netbase,jq
if [ ! -f "$WORK/base.tar" ]; then
  step "a base system by debootstrap (about 1 min, once)"
  rm -rf "$ROOT"
  MIRROR=${MIRROR:-$(apt-get indextargets --format '$(SITE)' 'Codename: bookworm' | head -1)}
  debootstrap --variant=minbase --include=$PACKAGES $SUITE "$ROOT" "$MIRROR" > "$WORK/debootstrap.log" 2>&1 ||
    { echo "image.sh: debootstrap failed: see $WORK/debootstrap.log" >&2; exit 1; }
  tar -C "$ROOT" --numeric-owner -cf "$WORK/base.tar.new" .
  mv "$WORK/base.tar.new" "$WORK/base.tar"
fi
step "unpacking the base system"
rm -rf "$ROOT"; mkdir -p "$ROOT"
tar -C "$ROOT" --numeric-owner -xf "$WORK/base.tar"
rm -rf "$ROOT"/var/cache/apt/* "$ROOT"/var/lib/apt/lists/* "$ROOT"/usr/share/{doc,man,locale}/* "$ROOT"/var/log/*.log

step "services"
units=$ROOT/lib/systemd/system
# What a machine starts and a container must not: terminals, devices, modules, clean-up by the clock.
rm -rf "$ROOT"/etc/systemd/system/*.wants "$units"/{multi-user,local-fs,timers,graphical}.target.wants/*
find "$units"/sockets.target.wants "$units"/sysinit.target.wants \
  \( -name '*udev*' -o -name '*initctl*' -o -name '*tmpfiles*' -o -name '*hwdb*' -o -name '*binfmt*' -o -name '*modules-load*' \
  -o -name '*firstboot*' -o -name '*repart*' -o -name '*pstore*' \) -delete
for unit in systemd-binfmt.service systemd-udevd.service systemd-logind.service console-getty.service getty@tty1.service; do
  ln -sf /dev/null "$ROOT/etc/systemd/system/$unit"
done
cp -r "$HERE"/files/. "$ROOT"/
mkdir -p "$ROOT"/etc/systemd/system/{kubelet.service.d,multi-user.target.wants} "$ROOT"/etc/kubernetes/manifests "$ROOT"/etc/cni/net.d "$ROOT"/opt/cni
ln -sfn /usr/lib/cni "$ROOT"/opt/cni/bin
ln -sf /lib/systemd/system/multi-user.target "$ROOT"/etc/systemd/system/default.target
for unit in containerd kubelet; do ln -sf /etc/systemd/system/$unit.service "$ROOT"/etc/systemd/system/multi-user.target.wants/; done
printf %s "$KUBE" > "$ROOT"/kind/version
install -m755 "$BIN"/node/{kubelet,kubeadm} "$BIN"/kubectl "$ROOT"/usr/bin/
install -m755 "$BIN"/node/crictl "$ROOT"/usr/local/bin/

# Images that kubeadm asks for by name, each one program; that of kube-proxy has the tools it calls, with their libraries.
step "images of the control plane"
all=()
image() { # image NAME FOLDER PROGRAM
  tar -C "$2" --owner=0 --group=0 --numeric-owner -c . |
    docker import --change 'ENV PATH=/usr/local/bin:/usr/sbin:/usr/bin' --change "ENTRYPOINT [\"/usr/local/bin/$3\"]" - "$1" > /dev/null
  all+=("$1")
}
folder() { # folder PROGRAM
  local in=$WORK/programs/${1##*/}
  rm -rf "$in"; mkdir -p "$in/usr/local/bin" "$in/tmp"; cp "$BIN/$1" "$in/usr/local/bin/"; echo "$in"
}
proxy=$(folder node/kube-proxy)
chroot "$ROOT" sh -c 'tools="/usr/sbin/xtables-nft-multi /usr/sbin/xtables-legacy-multi /usr/sbin/nft /usr/sbin/conntrack"
  plugins=$(echo /usr/lib/*/xtables/*.so)
  ls $tools $plugins; ldd $tools $plugins | grep -o "/[^ :]*" | grep -v "^/usr/sbin"' | sort -u |
  (cd "$ROOT" && while read -r file; do cp -L --parents ".$file" "$proxy"; done)
for name in {ip,ip6}tables{,-save,-restore}; do ln -s xtables-nft-multi "$proxy/usr/sbin/$name"; done
mkdir -p "$proxy/run"
for ref in $("$BIN/node/kubeadm" config images list --kubernetes-version "$KUBE"); do
  program=${ref##*/}; program=${program%%:*}
  case $program in
    kube-proxy) image "$ref" "$proxy" kube-proxy ;;
    coredns) image "$ref" "$(folder node/coredns)" coredns ;;
    pause) image "$ref" "$(folder node/pause)" pause; sed -i "s|PAUSE|$ref|" "$ROOT/etc/containerd/config.toml" ;;
    *) image "$ref" "$(folder "$program")" "$program" ;;
  esac
done
image flotilla.test/routes:1 "$(folder node/routes)" routes

# They go unpacked into the store of the node's containerd: this machine's containerd does it on the node's files.
step "loading them into the node"
run=$(mktemp -d)
docker save "${all[@]}" > "$WORK/images.tar"
docker rmi "${all[@]}" > /dev/null
printf 'version = 2\nroot = "%s"\nstate = "%s"\ndisabled_plugins = ["io.containerd.grpc.v1.cri"]\n[grpc]\n  address = "%s"\n' \
  "$ROOT/var/lib/containerd" "$run/state" "$run/sock" > "$run/config.toml"
containerd --config "$run/config.toml" > "$WORK/containerd.log" 2>&1 &
daemon=$!
trap 'kill $daemon 2>/dev/null || true' EXIT
node() { ctr --address "$run/sock" --namespace k8s.io images "$@"; }
for _ in $(seq 100); do ! node list > /dev/null 2>&1 || break; sleep 0.1; done
node import --snapshotter overlayfs "$WORK/images.tar" > /dev/null
# The kubelet clears away what is not pinned when disks fill.
for ref in $(node list --quiet); do node label "$ref" io.cri-containerd.image=managed io.cri-containerd.pinned=pinned > /dev/null; done
kill $daemon; wait $daemon || true
rm -rf "$run" "$WORK/images.tar" "$WORK/programs"

step "importing the image"
tar -C "$ROOT" --numeric-owner -c . |
  docker import --change 'ENV container=docker' --change 'ENTRYPOINT ["/usr/local/bin/entrypoint", "/sbin/init"]' - "$IMAGE" > /dev/null
rm -rf "$ROOT"
step "$IMAGE is made"
