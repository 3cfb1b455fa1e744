{{- /*
What `oncegate inject` puts into a pod. The settings are apart from the
container, since a pod that names a ConfigMap of its own does without them.
*/ -}}
{{- define "oncegate.sidecar" -}}
container:
  name: oncegate
  image: {{ include "oncegate.image" . }}
  imagePullPolicy: {{ .Values.image.pullPolicy }}
  # An init container that always restarts is a sidecar: it starts before the
  # application, ends after it, and keeps no Job alive.
  restartPolicy: Always
  ports:
    - name: oncegate-admin
      containerPort: 9191
  env:
    - name: LISTEN_ADDRESS
      value: 127.0.0.1:{{ .Values.sidecar.listenPort }}
    # On the pod's address, for probes and Prometheus.
    - name: ADMIN_ADDRESS
      value: ":9191"
    - name: STATE_DIR
      value: /var/lib/oncegate
    {{- if ((.Values.sidecar.resources).limits).memory }}
    {{- include "oncegate.memoryLimit" . | nindent 4 }}
    {{- end }}
  # The application starts when this has passed.
  startupProbe:
    httpGet:
      path: /readyz
      port: oncegate-admin
    periodSeconds: 1
    failureThreshold: {{ .Values.sidecar.startupSeconds }}
  livenessProbe:
    httpGet:
      path: /livez
      port: oncegate-admin
    periodSeconds: 10
    failureThreshold: 6
  # A faulty setting is told by `kubectl describe pod`.
  terminationMessagePolicy: FallbackToLogsOnError
  {{- with .Values.sidecar.resources }}
  resources:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  securityContext:
    {{- toYaml .Values.container.securityContext | nindent 4 }}
  volumeMounts:
    - name: oncegate-state
      mountPath: /var/lib/oncegate
volumes:
  - name: oncegate-state
    emptyDir:
      sizeLimit: {{ .Values.container.state.sizeLimit }}
settings:
  {{- include "oncegate.settings" (dict "root" . "own" .Values.sidecar.settings "taken" (list "LISTEN_ADDRESS" "ADMIN_ADDRESS" "STATE_DIR")) | nindent 2 }}
startAfter:
  {{- toYaml .Values.sidecar.startAfter | nindent 2 }}
{{- end }}
