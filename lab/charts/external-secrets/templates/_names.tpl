{{- define "external-secrets.fullname" -}}
{{- if contains "external-secrets" .Release.Name -}}
{{ .Release.Name }}
{{- else -}}
{{ .Release.Name }}-external-secrets
{{- end -}}
{{- end -}}
