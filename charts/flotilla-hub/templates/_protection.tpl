{{- /* protection: the policy for deletion protection, as apis/protection has it, under the name of the program. */ -}}
{{- define "flotilla.protection" -}}
{{- if .root.Values.deletionProtection.enabled }}
{{- $text := .root.Files.Get "files/protection.yaml" }}
{{- include "flotilla.policy" (dict "root" .root "text" $text "from" "flotilla-deletion-protection" "to" (printf "%s-deletions" .name)) }}
{{- end }}
{{- end }}
{{- /* warnings: what the API server warns about at apply, as apis/warnings has it, under the name of the program. */ -}}
{{- define "flotilla.warnings" -}}
{{- if .root.Values.warnings.enabled }}
{{- $text := .root.Files.Get "files/warnings.yaml" }}
{{- if not .runs }}
{{- $text = $text | replace "expression: 1 > 0 # the hub runs workloads" "expression: 0 > 1" }}
{{- end }}
{{- include "flotilla.policy" (dict "root" .root "text" $text "from" .from "to" (printf "%s-warnings" .name)) }}
{{- end }}
{{- end }}
{{- /* policy: a ValidatingAdmissionPolicy and its binding, under another name. */ -}}
{{- define "flotilla.policy" -}}
{{- range $document := splitList "\n---\n" (.text | replace .from .to) }}
{{- $object := $document | fromYaml }}
---
apiVersion: {{ $object.apiVersion }}
kind: {{ $object.kind }}
metadata:
  {{- include "flotilla.metadata" (dict "root" $.root "name" $.to "global" true) | nindent 2 }}
spec:
  {{- toYaml $object.spec | nindent 2 }}
{{- end }}
{{- end }}
