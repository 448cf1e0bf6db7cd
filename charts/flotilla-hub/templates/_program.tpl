{{- /* Shared by the charts of programs. Each takes a dict: root is the chart's scope, name the program's name in the cluster, values
its block of values. Names are fixed: API servers find the webhook by the name of the program's Service, and flotilla join makes the
ServiceAccount of the agent. */ -}}

{{- define "flotilla.selector" -}}
app.kubernetes.io/name: {{ .name }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
{{- end }}

{{- define "flotilla.metadata" -}}
name: {{ .name }}
{{- if not .global }}
namespace: {{ .root.Release.Namespace }}
{{- end }}
labels:
  {{- include "flotilla.selector" . | nindent 2 }}
  app.kubernetes.io/part-of: flotilla
  app.kubernetes.io/version: {{ .root.Values.image.tag | default .root.Chart.AppVersion | quote }}
  app.kubernetes.io/managed-by: {{ .root.Release.Service }}
  helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
  {{- with .labels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}

{{- define "flotilla.image" -}}
{{- with .Values.image -}}
{{- if .registry }}{{ .registry }}/{{ end }}{{ .repository }}
{{- if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end }}
{{- end }}

{{- define "flotilla.namespace" -}}
{{- if ne .Release.Namespace "flotilla-system" }}
{{- fail (printf "the namespace is %q, and tokens, certificates and Leases of Flotilla are in flotilla-system: give --namespace flotilla-system --create-namespace" .Release.Namespace) }}
{{- end }}
{{- end }}

{{- define "flotilla.serviceaccount" -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  {{- include "flotilla.metadata" . | nindent 2 }}
  {{- with .root.Values.serviceAccount.annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
automountServiceAccountToken: false
{{- end }}

{{- /* rights: the rules are the files that a review reads, as they are; besides is a list of further ones. */ -}}
{{- define "flotilla.rights" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  {{- include "flotilla.metadata" (merge (dict "global" true) .) | nindent 2 }}
rules:
{{ .root.Files.Get (printf "files/%s.yaml" .file) | trim }}
{{- with .besides }}
{{ toYaml . }}
{{- end }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  {{- include "flotilla.metadata" (merge (dict "global" true) .) | nindent 2 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: {{ .name }}
subjects:
- kind: ServiceAccount
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  {{- include "flotilla.metadata" . | nindent 2 }}
rules:
{{ .root.Files.Get (printf "files/%s-namespace.yaml" .file) | trim }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  {{- include "flotilla.metadata" . | nindent 2 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: {{ .name }}
subjects:
- kind: ServiceAccount
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
{{- end }}

{{- /* tracing: the environment of a program that sends traces, none without a receiver. */ -}}
{{- define "flotilla.tracing" -}}
{{- with .Values.tracing.endpoint }}
- name: OTEL_EXPORTER_OTLP_ENDPOINT
  value: {{ . | quote }}
{{- end }}
{{- end }}

{{- /* deployment: args is a list; env a list, before the user's; webhook tells whether the program serves one. */ -}}
{{- define "flotilla.deployment" -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  {{- include "flotilla.metadata" . | nindent 2 }}
spec:
  replicas: {{ .values.replicas }}
  revisionHistoryLimit: 3
  selector:
    matchLabels:
      {{- include "flotilla.selector" . | nindent 6 }}
  template:
    metadata:
      labels:
        {{- include "flotilla.selector" . | nindent 8 }}
        app.kubernetes.io/part-of: flotilla
        {{- with .values.podLabels }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      annotations:
        kubectl.kubernetes.io/default-container: {{ .name }}
        {{- with .values.podAnnotations }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
    spec:
      serviceAccountName: {{ .name }}
      automountServiceAccountToken: true
      enableServiceLinks: false
      terminationGracePeriodSeconds: 30
      securityContext:
        runAsNonRoot: true
        runAsUser: 65532
        runAsGroup: 65532
        seccompProfile:
          type: RuntimeDefault
      {{- with .root.Values.imagePullSecrets }}
      imagePullSecrets:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .values.priorityClassName }}
      priorityClassName: {{ . }}
      {{- end }}
      {{- with .values.nodeSelector }}
      nodeSelector:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .values.tolerations }}
      tolerations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .values.affinity }}
      affinity:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      topologySpreadConstraints:
      {{- if .values.topologySpreadConstraints }}
        {{- toYaml .values.topologySpreadConstraints | nindent 6 }}
      {{- else }}
      - topologyKey: kubernetes.io/hostname
        maxSkew: 1
        whenUnsatisfiable: ScheduleAnyway
        labelSelector:
          matchLabels:
            {{- include "flotilla.selector" . | nindent 12 }}
      {{- end }}
      containers:
      - name: {{ .name }}
        image: {{ include "flotilla.image" .root | quote }}
        imagePullPolicy: {{ .root.Values.image.pullPolicy }}
        args:
        {{- toYaml .args | nindent 8 }}
        - --log-level={{ .root.Values.log.level }}
        - --log-format={{ .root.Values.log.format }}
        {{- with .values.extraArgs }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
        {{- if or .env .values.extraEnv }}
        env:
        {{- with .env }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
        {{- with .values.extraEnv }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
        {{- end }}
        ports:
        - name: metrics
          containerPort: 8080
        - name: health
          containerPort: 8081
        {{- if .webhook }}
        - name: webhook
          containerPort: 9443
        {{- end }}
        startupProbe:
          httpGet:
            path: /healthz
            port: health
          periodSeconds: 2
          failureThreshold: 60
        livenessProbe:
          httpGet:
            path: /healthz
            port: health
          periodSeconds: 20
          timeoutSeconds: 5
          failureThreshold: 6
        readinessProbe:
          httpGet:
            path: /readyz
            port: health
          periodSeconds: 5
          timeoutSeconds: 3
        resources:
          {{- toYaml .values.resources | nindent 10 }}
        securityContext:
          allowPrivilegeEscalation: false
          readOnlyRootFilesystem: true
          privileged: false
          capabilities:
            drop: [ALL]
        {{- with .values.extraVolumeMounts }}
        volumeMounts:
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- with .values.extraVolumes }}
      volumes:
      {{- toYaml . | nindent 6 }}
      {{- end }}
{{- end }}

{{- define "flotilla.service" -}}
apiVersion: v1
kind: Service
metadata:
  {{- include "flotilla.metadata" . | nindent 2 }}
spec:
  selector:
    {{- include "flotilla.selector" . | nindent 4 }}
  ports:
  {{- if .webhook }}
  - name: webhook
    port: 443
    targetPort: webhook
  {{- end }}
  - name: metrics
    port: 8080
    targetPort: metrics
{{- end }}

{{- define "flotilla.guards" -}}
{{- if .root.Values.podDisruptionBudget.enabled }}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  {{- include "flotilla.metadata" . | nindent 2 }}
spec:
  maxUnavailable: 1
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels:
      {{- include "flotilla.selector" . | nindent 6 }}
{{- end }}
{{- if .root.Values.networkPolicy.enabled }}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  {{- include "flotilla.metadata" . | nindent 2 }}
spec:
  podSelector:
    matchLabels:
      {{- include "flotilla.selector" . | nindent 6 }}
  policyTypes: [Ingress]
  ingress:
  # Probes, and API servers, come from addresses that no selector has.
  - ports:
    - port: health
    {{- if .webhook }}
    - port: webhook
    {{- end }}
  - ports:
    - port: metrics
    {{- with .root.Values.networkPolicy.metricsFrom }}
    from:
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end }}
{{- if .root.Values.metrics.serviceMonitor.enabled }}
---
apiVersion: monitoring.coreos.com/v1
kind: ServiceMonitor
metadata:
  {{- include "flotilla.metadata" (merge (dict "labels" .root.Values.metrics.serviceMonitor.labels) .) | nindent 2 }}
spec:
  selector:
    matchLabels:
      {{- include "flotilla.selector" . | nindent 6 }}
  endpoints:
  - port: metrics
    interval: {{ .root.Values.metrics.serviceMonitor.interval }}
{{- end }}
{{- end }}

{{- /* alerts: each program's own by the metrics that it has; runbooks are headings of docs/install.md. */ -}}
{{- define "flotilla.alerts" -}}
{{- $job := .name -}}
{{- $runbook := "https://github.com/flotilla-dev/flotilla/blob/main/docs/install.md" -}}
- name: {{ .name }}
  rules:
  - alert: FlotillaNoLeader
    expr: absent(leader_election_master_status{job={{ $job | quote }}} == 1)
    for: 5m
    labels: {severity: critical, program: {{ .name }}}
    annotations:
      summary: No replica of {{ .name }} has led for 5 minutes. What runs, runs on; nothing new is decided.
      runbook_url: {{ $runbook }}#flotillanoleader
  - alert: FlotillaReconcileErrors
    expr: sum by (controller) (rate(controller_runtime_reconcile_errors_total{job={{ $job | quote }}}[10m])) > 0.05
    for: 15m
    labels: {severity: warning, program: {{ .name }}}
    annotations:
      summary: Controller {{ "{{ $labels.controller }}" }} of {{ .name }} has failed again and again for 15 minutes.
      runbook_url: {{ $runbook }}#flotillareconcileerrors
  - alert: FlotillaQueueNotDraining
    expr: min_over_time(workqueue_depth{job={{ $job | quote }}}[15m]) > 100
    for: 15m
    labels: {severity: warning, program: {{ .name }}}
    annotations:
      summary: Queue {{ "{{ $labels.name }}" }} of {{ .name }} has held more than 100 objects for 15 minutes.
      runbook_url: {{ $runbook }}#flotillaqueuenotdraining
  {{- if .webhook }}
  {{- $of := printf "{job=%q}" $job }}
  - alert: FlotillaCertificateExpires
    expr: (flotilla_certificate_expiry_timestamp_seconds{{ $of }} - time()) / (flotilla_certificate_expiry_timestamp_seconds{{ $of }} - flotilla_certificate_begin_timestamp_seconds{{ $of }}) < 0.15
    for: 1m
    labels: {severity: critical, program: {{ .name }}}
    annotations:
      summary: The certificate {{ "{{ $labels.certificate }}" }} of {{ .name }} has less than 15 % of its life left, and was not renewed.
      runbook_url: {{ $runbook }}#flotillacertificateexpires
  - alert: FlotillaWebhookErrors
    expr: sum by (webhook) (rate(controller_runtime_webhook_requests_total{job={{ $job | quote }},code=~"5.."}[10m])) > 0
    for: 10m
    labels: {severity: warning, program: {{ .name }}}
    annotations:
      summary: The webhook {{ "{{ $labels.webhook }}" }} of {{ .name }} answers with errors.
      runbook_url: {{ $runbook }}#flotillawebhookerrors
  {{- end }}
{{- end }}

{{- /* dashboards: each file of the chart's folder becomes a ConfigMap. */ -}}
{{- define "flotilla.dashboards" -}}
{{- if .Values.dashboards.enabled }}
{{- range $path, $_ := .Files.Glob "dashboards/*.json" }}
---
apiVersion: v1
kind: ConfigMap
metadata:
  {{- include "flotilla.metadata" (dict "root" $ "name" (printf "flotilla-dashboard-%s" (base $path | trimSuffix ".json")) "labels" (merge (dict "grafana_dashboard" "1") $.Values.dashboards.labels)) | nindent 2 }}
data:
  flotilla-{{ base $path }}: |
    {{- $.Files.Get $path | nindent 4 }}
{{- end }}
{{- end }}
{{- end }}

{{- define "flotilla.rulesmetadata" -}}
{{- include "flotilla.metadata" (merge (dict "labels" .root.Values.prometheusRule.labels) .) }}
{{- end }}
