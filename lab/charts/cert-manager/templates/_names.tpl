{{- define "cert-manager.fullname" -}}
{{- if contains "cert-manager" .Release.Name -}}
{{ .Release.Name }}
{{- else -}}
{{ .Release.Name }}-cert-manager
{{- end -}}
{{- end -}}
