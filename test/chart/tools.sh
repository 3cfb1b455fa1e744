#!/usr/bin/env bash
# Builds the tools that check chart and image, where they are not there yet, and
# prints the folder they are in.
set -euo pipefail
cd "$(dirname "$0")"

cache=${ONCEGATE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/oncegate}
sources=$(cat tools/go.mod tools/go.sum tools/*/*.go ../kube/apiserver/go.mod tools.sh | sha256sum | cut -c1-16)
tools=$cache/chart-tools-$sources
[ -d "$tools" ] && { echo "$tools"; exit; }

mkdir -p "$cache"
exec 9>"$tools.lock"
flock 9
[ -d "$tools" ] && { echo "$tools"; exit; }
partial=$tools.partial
rm -rf "$partial"
mkdir -p "$partial/kinds"
echo "building the tools for the chart; minutes, once" >&2
go build -C tools -trimpath -ldflags "-s -w" -o "$partial/" tool >&2

# The source of a module, by the version that is wanted.
source_of() { go mod download -json "$1" | sed -n 's/.*"Dir": "\(.*\)".*/\1/p'; }
kubernetes=$(awk '$1 == "k8s.io/kubernetes" { print $1 "@" $2; exit }' ../kube/apiserver/go.mod)
monitoring=$(source_of github.com/prometheus-operator/prometheus-operator@v0.85.0)/example/prometheus-operator-crd
certificates=$(source_of github.com/cert-manager/cert-manager@v1.21.2)/deploy/crds
"$partial/schemas" "$partial/kinds" "$(source_of "$kubernetes")/api/openapi-spec/swagger.json" \
  "$monitoring"/monitoring.coreos.com_{podmonitors,prometheusrules}.yaml \
  "$certificates"/cert-manager.io_{certificates,issuers}.yaml
mv "$partial" "$tools"
# Earlier ones go, but not under somebody who has just built them.
find "$cache" -maxdepth 1 -name 'chart-tools-*' ! -path "$tools*" -mmin +1440 -exec rm -rf {} +
echo "$tools"
