{{- /*
Not longer than 36: an operator's Pod has it with "-operator", a hash of 10 and five letters, of which the cluster would cut
what is over 63.
*/ -}}
{{- define "berth.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride -}}
{{- else -}}
{{- $part := default .Chart.Name .Values.nameOverride -}}
{{- $long := ternary .Release.Name (printf "%s-%s" .Release.Name $part) (contains $part .Release.Name) -}}
{{- $name := $long | trunc 36 | trimSuffix "-" -}}
{{- if not (regexMatch "^[a-z]([-a-z0-9]*[a-z0-9])?$" $name) -}}
{{- fail (printf "%q cannot be the name of a Service, which begins with a letter and has letters, digits and dashes: set fullnameOverride, or name the release otherwise" $name) -}}
{{- end -}}
{{- $name -}}
{{- end -}}
{{- end -}}

{{- /* What every object of the release carries. */ -}}
{{- define "berth.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
app.kubernetes.io/part-of: berth
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end -}}

{{- /* (list $ "gateway"): what selects the Pods of a part, for good. No podTemplate of a Slot may set berth.dev/part. */ -}}
{{- define "berth.selector" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: {{ default $root.Chart.Name $root.Values.nameOverride }}
app.kubernetes.io/instance: {{ $root.Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
berth.dev/part: {{ index . 1 }}
{{- end -}}

{{- define "berth.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ default $.Chart.AppVersion .tag }}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "berth.claim" -}}
{{- default (printf "%s-models" (include "berth.fullname" .)) .Values.modelStorage.existingClaim -}}
{{- end -}}

{{- /* The Pod Security level "restricted". */ -}}
{{- define "berth.podSecurity" -}}
runAsNonRoot: true
runAsUser: {{ int .Values.user }}
runAsGroup: {{ int .Values.user }}
fsGroup: {{ int .Values.user }}
fsGroupChangePolicy: OnRootMismatch
seccompProfile: { type: RuntimeDefault }
{{- end -}}

{{- define "berth.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: { drop: [ALL] }
{{- end -}}

{{- /* (list $ . "gateway"): where Pods of a part may run. */ -}}
{{- define "berth.scheduling" -}}
{{- $root := index . 0 -}}
{{- $part := index . 1 -}}
{{- with $root.Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $part.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- with $part.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $part.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $part.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $part.topologySpreadConstraints }}
topologySpreadConstraints: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- /* Names that /api accepts as this service's. */ -}}
{{- define "berth.hosts" -}}
{{- $name := include "berth.fullname" . -}}
{{- $namespace := .Release.Namespace -}}
{{- $hosts := list $name (printf "%s.%s" $name $namespace) (printf "%s.%s.svc" $name $namespace) (printf "%s.%s.svc.cluster.local" $name $namespace) -}}
{{- if .Values.ingress.enabled -}}{{- $hosts = concat $hosts .Values.ingress.hosts -}}{{- end -}}
{{- if .Values.httpRoute.enabled -}}{{- $hosts = concat $hosts .Values.httpRoute.hostnames -}}{{- end -}}
{{- $hosts = concat $hosts (default list .Values.settings.allowedHosts) -}}
{{- $hosts | uniq | join "," -}}
{{- end -}}

{{- /* Settings that both programs have. */ -}}
{{- define "berth.settings" -}}
- { name: SVC_STORE, value: kubernetes }
- { name: SVC_RUNTIME, value: kubernetes }
- { name: SVC_CONFIG_DIR, value: /etc/berth }
- { name: SVC_STATE_DIR, value: /var/lib/berth }
- { name: SVC_MODELS_DIR, value: /models }
- { name: SVC_AUTH_ENABLED, value: {{ .Values.auth.enabled | quote }} }
- { name: SVC_HOST, value: {{ default "0.0.0.0" .Values.settings.host | quote }} }
- name: POD_NAMESPACE
  valueFrom: { fieldRef: { fieldPath: metadata.namespace } }
- name: POD_NAME
  valueFrom: { fieldRef: { fieldPath: metadata.name } }
- name: POD_UID
  valueFrom: { fieldRef: { fieldPath: metadata.uid } }
{{- range $key, $value := omit .Values.settings "allowedHosts" "host" }}
- name: SVC_{{ $key | snakecase | upper }}
  value: {{ if kindIs "slice" $value }}{{ join "," $value | quote }}{{ else if and (kindIs "float64" $value) (eq (floor $value) $value) }}{{ int64 $value | quote }}{{ else }}{{ $value | toString | quote }}{{ end }}
{{- end }}
{{- end -}}

{{- /* (list "Slot" "chat"): fails where the API server would refuse the name, before anything is made. */ -}}
{{- define "berth.checkName" -}}
{{- $kind := index . 0 -}}
{{- $name := index . 1 -}}
{{- $short := "^[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?$" -}}
{{- $long := "^[a-z0-9]([a-z0-9.-]{0,199}[a-z0-9])?$" -}}
{{- if eq $kind "Slot" -}}
{{- if not (regexMatch $short $name) -}}{{- fail (printf "slots: %q is not a slot name: 1 to 32 lower-case letters, digits and dashes" $name) -}}{{- end -}}
{{- else if eq $kind "SlotGroup" -}}
{{- if not (regexMatch $short $name) -}}{{- fail (printf "slotGroups: %q is not the name of a group: 1 to 32 lower-case letters, digits and dashes" $name) -}}{{- end -}}
{{- else if not (regexMatch $long $name) -}}
{{- $more := ternary (printf "; `ref: %s` in its spec is what slots call it" $name) "" (eq $kind "Model") -}}
{{- fail (printf "%ss: %q cannot be a name in a cluster: lower-case letters, digits, dashes and dots%s" (lower $kind) $name $more) -}}
{{- end -}}
{{- end -}}
