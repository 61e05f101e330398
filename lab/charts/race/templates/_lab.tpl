{{/*
Templates that charts of the lab share by links to this file. Each takes a dict
with root (the chart's $), name (of the objects) and app (the label
app.kubernetes.io/name).
*/}}

{{- define "lab.selector" -}}
app.kubernetes.io/name: {{ .app }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
{{- end -}}

{{- define "lab.labels" -}}
{{ include "lab.selector" . }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ .root.Chart.Name }}-{{ .root.Chart.Version }}
{{- end -}}

{{/*
lab.deployment also takes flags (the operator's, in camelCase), port (of the
webhook), and certSecret (mounted at /certs; empty: none).
*/}}
{{- define "lab.deployment" -}}
{{- $readiness := .root.Values.readiness | default dict -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels: {{- include "lab.labels" . | nindent 4 }}
spec:
  replicas: 1
  {{- with .root.Values.strategy }}
  strategy:
    type: {{ . }}
  {{- end }}
  selector:
    matchLabels: {{- include "lab.selector" . | nindent 6 }}
  template:
    metadata:
      labels: {{- include "lab.labels" . | nindent 8 }}
    spec:
      serviceAccountName: {{ .name }}
      terminationGracePeriodSeconds: 1
      securityContext:
        runAsNonRoot: true
        runAsUser: 65532
      containers:
        - name: operator
          image: {{ .root.Values.image }}
          imagePullPolicy: {{ .root.Values.imagePullPolicy }}
          env:
            - name: LAB_NAME
              value: {{ .name }}
            - name: LAB_NAMESPACE
              valueFrom:
                fieldRef:
                  fieldPath: metadata.namespace
            {{- range $key, $value := .flags }}
            - name: LAB_{{ regexReplaceAll "([A-Z])" $key "_${1}" | upper }}
              value: {{ $value | toString | quote }}
            {{- end }}
          ports:
            - name: webhook
              containerPort: {{ .port }}
            - name: health
              containerPort: 8081
          readinessProbe:
            httpGet:
              path: /readyz
              port: health
            initialDelaySeconds: {{ $readiness.initialDelaySeconds | default 0 }}
            periodSeconds: {{ $readiness.periodSeconds | default 1 }}
          resources:
            requests:
              cpu: 5m
              memory: 16Mi
          volumeMounts:
            - name: state
              mountPath: /state
            {{- if .certSecret }}
            - name: certs
              mountPath: /certs
              readOnly: true
            {{- end }}
      volumes:
        - name: state
          emptyDir: {}
        {{- if .certSecret }}
        - name: certs
          secret:
            secretName: {{ .certSecret }}
        {{- end }}
{{- end -}}

{{/* lab.account also takes groups: the API groups whose objects the operator manages. */}}
{{- define "lab.account" -}}
{{- $cluster := printf "%s-%s" .root.Release.Namespace .name | trunc 63 -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels: {{- include "lab.labels" . | nindent 4 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: {{ $cluster }}
  labels: {{- include "lab.labels" . | nindent 4 }}
rules:
  - apiGroups: {{ .groups | toJson }}
    resources: ["*"]
    verbs: [get, list, watch, update, patch]
  - apiGroups: [""]
    resources: [secrets]
    verbs: [get, create, update]
  - apiGroups: [admissionregistration.k8s.io]
    resources: [validatingwebhookconfigurations, mutatingwebhookconfigurations]
    verbs: [get, list, update, patch]
  - apiGroups: [apiextensions.k8s.io]
    resources: [customresourcedefinitions]
    verbs: [get, update]
  - apiGroups: [discovery.k8s.io]
    resources: [endpointslices]
    verbs: [list]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: {{ $cluster }}
  labels: {{- include "lab.labels" . | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: {{ $cluster }}
subjects:
  - kind: ServiceAccount
    name: {{ .name }}
    namespace: {{ .root.Release.Namespace }}
{{- end -}}

{{/*
lab.service also takes service (its name) and servicePort. Metrics have a
Service of their own, so that the webhook's looks like a real one.
*/}}
{{- define "lab.service" -}}
apiVersion: v1
kind: Service
metadata:
  name: {{ .service }}
  namespace: {{ .root.Release.Namespace }}
  labels: {{- include "lab.labels" . | nindent 4 }}
spec:
  selector: {{- include "lab.selector" . | nindent 4 }}
  ports:
    - name: webhook
      port: {{ .servicePort }}
      targetPort: webhook
---
apiVersion: v1
kind: Service
metadata:
  name: {{ .service }}-metrics
  namespace: {{ .root.Release.Namespace }}
  labels: {{- include "lab.labels" . | nindent 4 }}
spec:
  selector: {{- include "lab.selector" . | nindent 4 }}
  # Calls are counted before the pod is ready, too.
  publishNotReadyAddresses: true
  ports:
    - name: metrics
      port: 8081
      targetPort: health
{{- end -}}

{{/*
lab.certificate gives, as JSON, ca, cert and key (each base64) for the Service
named service, from genCA or, with keep, from the Secret named secret. Call it
once per render and keep the result: each call makes new ones.
*/}}
{{- define "lab.certificate" -}}
{{- $old := dict -}}
{{- if .keep -}}
{{- $old = (lookup "v1" "Secret" .root.Release.Namespace .secret).data | default dict -}}
{{- end -}}
{{- if index $old "tls.crt" -}}
{{- dict "ca" (index $old "ca.crt") "cert" (index $old "tls.crt") "key" (index $old "tls.key") | toJson -}}
{{- else -}}
{{- $host := .san | default (printf "%s.%s.svc" .service .root.Release.Namespace) -}}
{{- $ca := genCA (printf "%s-ca" .service) 3650 -}}
{{- $cert := genSignedCert $host nil (list $host) (int (.days | default 3650)) $ca -}}
{{- dict "ca" (b64enc $ca.Cert) "cert" (b64enc $cert.Cert) "key" (b64enc $cert.Key) | toJson -}}
{{- end -}}
{{- end -}}

{{/* lab.certsecret also takes secret (its name) and certificate (what lab.certificate gave). */}}
{{- define "lab.certsecret" -}}
apiVersion: v1
kind: Secret
metadata:
  name: {{ .secret }}
  namespace: {{ .root.Release.Namespace }}
  labels: {{- include "lab.labels" . | nindent 4 }}
type: kubernetes.io/tls
data:
  ca.crt: {{ .certificate.ca }}
  tls.crt: {{ .certificate.cert }}
  tls.key: {{ .certificate.key }}
{{- end -}}
