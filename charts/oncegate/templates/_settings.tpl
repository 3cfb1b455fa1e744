{{- /*
Settings of one use as a map from name to text: the chart's settings, under
those of the use. Call with the root, the use's own, and the names that are not
free. YAML reads an unquoted on as true, and Helm a number as a float.
*/ -}}
{{- define "oncegate.settings" -}}
{{- $all := dict }}
{{- with .root.Values.upstream.brokers }}
{{- $_ := set $all "UPSTREAM_BROKERS" (join "," .) }}
{{- end }}
{{- range $name, $value := merge (dict) .own .root.Values.settings }}
{{- if has $name $.taken }}
{{- fail (printf "settings.%s can't be set: the chart sets it to fit the pod, from other values where it can be chosen" $name) }}
{{- end }}
{{- if kindIs "bool" $value }}{{ $value = ternary "on" "off" $value }}{{ end }}
{{- if kindIs "float64" $value }}{{ $value = int64 $value }}{{ end }}
{{- $_ := set $all $name (toString $value) }}
{{- end }}
{{- toYaml $all }}
{{- end }}

{{- /* The Go runtime collects garbage before the container's limit is met. */ -}}
{{- define "oncegate.memoryLimit" -}}
- name: GOMEMLIMIT
  valueFrom:
    resourceFieldRef:
      resource: limits.memory
{{- end }}
