#!/usr/bin/env bash
# chromium.sh: installs Debian's package chromium where no Chromium is installed. That needs root.
set -euo pipefail
for name in chromium chromium-browser google-chrome; do
  ! command -v "$name" > /dev/null || exit 0
done
if [ "$(id -u)" != 0 ] || ! command -v apt-get > /dev/null; then
  echo "there is no chromium: install it, or run this as root on Debian" >&2; exit 1
fi
start=$SECONDS
echo "installing chromium"
log=$(mktemp); trap 'rm -f "$log"' EXIT
{ apt-get update -q && apt-get install -qy --no-install-recommends chromium fonts-dejavu-core; } > "$log" 2>&1 || { tail -20 "$log" >&2; exit 1; }
echo "chromium is installed after $((SECONDS - start)) s"
