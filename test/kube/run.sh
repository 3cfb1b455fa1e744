#!/usr/bin/env bash
# Installs the chart into a real API server with etcd, without nodes, and has
# pods injected. Builds what it needs once, which takes minutes.
set -euo pipefail
cd "$(dirname "$0")"

if ! command -v etcd >/dev/null; then
  apt-get update -q
  DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends etcd-server
fi

cache=${ONCEGATE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/oncegate}
version=$(awk '$1 == "k8s.io/kubernetes" { print $2; exit }' apiserver/go.mod)
server=$cache/kube-apiserver-$version
mkdir -p "$cache"
(
  flock 9
  if [ ! -x "$server/kube-apiserver" ]; then
    echo "building kube-apiserver $version; minutes, once" >&2
    mkdir -p "$server"
    # Helm asks the server for its version.
    stamp="-X k8s.io/component-base/version.gitVersion=$version -X k8s.io/client-go/pkg/version.gitVersion=$version"
    go build -C apiserver -trimpath -ldflags "-s -w $stamp" -o "$server/partial" k8s.io/kubernetes/cmd/kube-apiserver
    mv "$server/partial" "$server/kube-apiserver"
  fi
) 9>"$server.lock"

tools=$(../chart/tools.sh)
bin=$(mktemp -d)
trap 'rm -rf "$bin"' EXIT
ln -s "$server/kube-apiserver" "$(command -v etcd)" "$tools/helm" "$bin/"
[ -n "${ONCEGATE_BINARY:-}" ] && cp "$ONCEGATE_BINARY" "$bin/oncegate" || go build -C ../.. -o "$bin/oncegate" ./cmd/oncegate
KUBE_BIN=$bin go test -count=1 -v -timeout 10m "$@" .
