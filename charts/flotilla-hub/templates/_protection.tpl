{{- /* protection: the policy for deletion protection, as apis/protection has it, under the name of the program. */ -}}
{{- define "flotilla.protection" -}}
{{- if .root.Values.deletionProtection.enabled }}
{{- $name := printf "%s-deletions" .name }}
{{- $text := .root.Files.Get "files/protection.yaml" | replace "flotilla-deletion-protection" $name }}
{{- range $document := splitList "\n---\n" $text }}
{{- $object := $document | fromYaml }}
---
apiVersion: {{ $object.apiVersion }}
kind: {{ $object.kind }}
metadata:
  {{- include "flotilla.metadata" (dict "root" $.root "name" $name "global" true) | nindent 2 }}
spec:
  {{- toYaml $object.spec | nindent 2 }}
{{- end }}
{{- end }}
{{- end }}
