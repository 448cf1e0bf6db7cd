#!/usr/bin/env bash
# Writes the deep copies of all API types and the CustomResourceDefinitions beside this script. Run it after a change of
# the types. The controller-gen binary is the first argument, or $CONTROLLER_GEN, or .bin/controller-gen of this repository.
set -euo pipefail
crds=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
apis=$(dirname "$crds")
controller_gen=${1:-${CONTROLLER_GEN:-$(dirname "$apis")/.bin/controller-gen}}
if [[ ! -x $controller_gen ]]; then
  echo "controller-gen is not at $controller_gen: run make setup, or give its path as the first argument" >&2
  exit 1
fi
controller_gen=$(realpath "$controller_gen")

raw=$(mktemp -d)
trap 'rm -rf "$raw"' EXIT
cd "$apis"
"$controller_gen" object crd:crdVersions=v1 paths=./apps/... paths=./policy/... paths=./topology/... paths=./work/... output:crd:dir="$raw"
go run ./crds/gen "$raw" "$crds"
