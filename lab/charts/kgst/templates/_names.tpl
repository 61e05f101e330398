{{- /* id is NAME-VERSION as names of objects take it; it checks the values as the real chart does. */ -}}
{{- define "kgst.id" -}}
{{- $parts := splitList ":" .Values.chart -}}
{{- if or (ne (len $parts) 2) (has "" $parts) -}}
{{- fail "Invalid 'chart' format: must be 'name:version' (e.g. 'ingress-nginx:4.11.5')" -}}
{{- end -}}
{{- $own := "oci://ghcr.io/k0rdent/catalog/charts" -}}
{{- if and (eq .Values.repo.name "k0rdent-catalog") (ne .Values.repo.spec.url $own) -}}
{{- fail (printf "Please set 'repo.name' as 'k0rdent-catalog' is reserved for %s" $own) -}}
{{- end -}}
{{- join "-" $parts | replace "." "-" -}}
{{- end -}}
