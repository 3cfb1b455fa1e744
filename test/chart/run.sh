#!/usr/bin/env bash
# Checks the Dockerfile and the chart: linters, every topology against the
# schemas of Kubernetes' kinds, values that have to be refused, unit tests, and
# the alerts.
set -euo pipefail
cd "$(dirname "$0")"

tools=$(./tools.sh)
chart=../../charts/oncegate
kube=(--kube-version 1.37.2)
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

fail() { echo "FAILED: $*" >&2; exit 1; }
valid() { "$tools/kubeconform" -strict -summary -schema-location "$tools/kinds/{{.ResourceKind}}-{{.Group}}-{{.ResourceAPIVersion}}.json" "$@"; }

echo "== Dockerfile"
"$tools/dockerlint" ../../Dockerfile
"$tools/dockerlint" bad/Dockerfile >/dev/null && fail "the linter lets a bad Dockerfile pass"

echo "== topologies"
for values in topologies/*.yaml; do
  name=$(basename "$values" .yaml)
  "$tools/helm" lint --quiet --strict "${kube[@]}" "$chart" -f "$values"
  "$tools/helm" template release "$chart" --namespace there "${kube[@]}" -f "$values" >"$out/$name.yaml"
  echo -n "$name: "
  valid "$out/$name.yaml"
done

# The sidecar is JSON inside a ConfigMap, which no schema looks into: it is
# checked as the init container that it becomes.
for values in topologies/injector*.yaml topologies/everything.yaml; do
  "$tools/helm" template release "$chart" "${kube[@]}" -f "$values" -s templates/injector/sidecar.yaml |
    "$tools/sidecarpod" >"$out/pod.json"
  valid "$out/pod.json" >/dev/null || fail "the sidecar of $values is no container"
done

echo "== kubeconform bites"
sed 's/ replicas:/ replica:/' "$out/gateway.yaml" >"$out/typo.yaml"
valid "$out/typo.yaml" >/dev/null && fail "a misspelt field passes"

echo "== values that have to be refused"
for values in bad/*.yaml; do
  says=$(sed -n '1s/^# says: //p' "$values")
  [ -n "$says" ] || fail "$values does not say what it is refused with"
  if "$tools/helm" template release "$chart" "${kube[@]}" -f "$values" >/dev/null 2>"$out/refused"; then
    fail "$values is not refused"
  fi
  grep -qF -- "$says" "$out/refused" || { cat "$out/refused"; fail "$values is not refused with: $says"; }
  echo "$(basename "$values" .yaml): $says"
done

echo "== unit tests"
"$tools/helm-unittest" --strict "$chart" | tee "$out/unit"
grep -qE '^Tests: +[1-9][0-9]* passed' "$out/unit" || fail "no unit test ran"

echo "== alerts"
"$tools/promtool" check rules "$chart/files/rules.yaml"
"$tools/promtool" test rules rules_test.yaml
sed -n 's/.*- alert: //p' "$chart/files/rules.yaml" | while read -r alert; do
  grep -q "alertname: $alert\$" rules_test.yaml || fail "no test for $alert"
done

echo "== dashboard"
queries=0
while read -r query; do
  "$tools/promtool" --experimental promql format "$query" >/dev/null || fail "the dashboard asks: $query"
  queries=$((queries + 1))
done < <(sed -n 's/^ *"expr": "\(.*\)",$/\1/p' "$chart/files/dashboard.json" |
  sed 's/\\"/"/g; s/\$__rate_interval/5m/g; s/\$__range/1h/g')
echo "$queries queries can be read"
[ "$queries" -gt 20 ] || fail "the dashboard has only $queries queries"
