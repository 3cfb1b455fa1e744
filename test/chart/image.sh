#!/usr/bin/env bash
# Builds the image from the Dockerfile as it is, with buildah and without a
# registry, and runs what came out: as its user, with a root that can't be
# written.
set -euo pipefail
cd "$(dirname "$0")/../.."

need() { # command, Debian package
  command -v "$1" >/dev/null && return
  [ -n "${updated:-}" ] || { apt-get update -q; updated=1; }
  DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends "$2"
}
need buildah buildah
need curl curl
[ -x /bin/busybox ] || need busybox busybox-static

fail() { echo "FAILED: $*" >&2; exit 1; }
out=$(mktemp -d)
pid=
container=
finish() {
  [ -z "$pid" ] || kill "$pid" 2>/dev/null || true
  [ -z "$container" ] || b umount "$container" >/dev/null || true
  rm -rf "$out"
}
trap finish EXIT
# Its own storage: nothing that is on the machine is used or left behind.
b() { buildah --root "$out/storage" --runroot "$out/run" --storage-driver vfs "$@"; }

echo "== a base image of the compiler that is here"
go_version=$(sed -n 's/^ARG GO_VERSION=//p' Dockerfile)
base=$(b from scratch)
root=$(b mount "$base")
mkdir -p "$root"/{bin,etc/ssl/certs,usr/local,tmp,root,go}
cp "$(readlink -f "$(command -v busybox)")" "$root/bin/busybox"
for command in sh cp mkdir rm cat; do ln -s busybox "$root/bin/$command"; done
cp -L /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
cp -a "$(go env GOROOT)" "$root/usr/local/go"
b config --env PATH=/usr/local/go/bin:/bin --env GOPATH=/go --env GOTOOLCHAIN=local --env GOFLAGS=-buildvcs=false "$base"
b umount "$base" >/dev/null
b commit -q "$base" "docker.io/library/golang:$go_version" >/dev/null
b rm "$base" >/dev/null

echo "== build"
commit=$(git rev-parse HEAD)
b bud --isolation chroot --pull-never --format docker -q \
  --platform "linux/$(go env GOARCH)" \
  -v "$(go env GOMODCACHE):/go/pkg/mod" -v "$(go env GOCACHE):/root/.cache/go-build" \
  --build-arg VERSION=1.2.3-test --build-arg COMMIT="$commit" -t oncegate . >/dev/null

echo "== what is in it"
b inspect --type image --format '{{.Docker.Config.User}} {{.Docker.Config.Entrypoint}} {{index .Docker.Config.Labels "org.opencontainers.image.version"}} {{index .Docker.Config.Labels "org.opencontainers.image.revision"}}' oncegate >"$out/config"
cat "$out/config"
echo
[ "$(cat "$out/config")" = "65532:65532 [/oncegate] 1.2.3-test $commit" ] || fail "user, entry point or labels are others"
container=$(b from --pull-never oncegate)
image=$(b mount "$container")
find "$image" -type f -printf '%P %s\n' | sort | tee "$out/files"
[ "$(cut -d' ' -f1 "$out/files" | paste -sd' ')" = "etc/ssl/certs/ca-certificates.crt oncegate" ] || fail "the image holds other files"
size=$(awk '{ all += $2 } END { print all }' "$out/files")
echo "$size bytes"
[ "$size" -le 30000000 ] || fail "the image has more than 30 MB"
! readelf -l "$image/oncegate" 2>/dev/null | grep -q INTERP || fail "the binary is not static"

echo "== run"
# What a container runtime does: the image as root, read-only, and its user.
in_image() {
  unshare -m sh -c 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec chroot --userspec=65532:65532 "$0" "$@"' "$image" "$@"
}
in_image /oncegate version | tee "$out/version"
[ "$(cat "$out/version")" = "oncegate 1.2.3-test (${commit:0:12})" ] || fail "it tells another version"

port=$(shuf -i 20000-30000 -n 1)
admin=127.0.0.1:$((port + 200))
env -i UPSTREAM_BROKERS=127.0.0.1:1 LISTEN_ADDRESS=127.0.0.1:$port ADMIN_ADDRESS=$admin DRAIN_TIMEOUT=5s \
  unshare -m sh -c 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec chroot --userspec=65532:65532 "$0" /oncegate' "$image" 2>"$out/log" &
pid=$!
for _ in $(seq 100); do
  curl -sf "http://$admin/livez" >"$out/livez" && break
  kill -0 "$pid" 2>/dev/null || { cat "$out/log"; fail "it ended"; }
  sleep 0.1
done
grep -q ok "$out/livez" || { cat "$out/log"; fail "/livez does not answer"; }
echo "/livez: $(cat "$out/livez")"
code=$(curl -s -o "$out/readyz" -w '%{http_code}' "http://$admin/readyz")
echo "/readyz: $code $(cat "$out/readyz")"
[ "$code" = 503 ] || fail "/readyz says that Kafka answers"
grep -E '^(Uid|VmRSS)' "/proc/$pid/status"
[ "$(awk '/^Uid/ { print $2 }' "/proc/$pid/status")" = 65532 ] || fail "it runs as another user"
[ "$(awk '/^VmRSS/ { print $2 }' "/proc/$pid/status")" -le 30720 ] || fail "it takes more than 30 MiB at rest"

kill -TERM "$pid"
code=0
wait "$pid" || code=$?
pid=
[ "$code" = 0 ] || { cat "$out/log"; fail "it ended with $code after SIGTERM"; }
echo "exit code after SIGTERM: $code"
