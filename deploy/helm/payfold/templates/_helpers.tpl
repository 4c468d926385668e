{{/* The beginning of every name: the release, with the chart's name unless it is in it. */}}
{{- define "payfold.fullname" -}}
{{- $name := ternary .Release.Name (printf "%s-payfold" .Release.Name) (contains "payfold" .Release.Name) -}}
{{- $name | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{/* What differs between roles. `shop` and `public` are the listener a role serves; a role without either serves nobody. */}}
{{- define "payfold.roles" -}}
ingest: { listener: public, port: 8080, vault: true, orders: false, partners: false }
checkout: { listener: shop, port: 8081, vault: true, orders: true, partners: true }
projector: { listener: "", vault: false, orders: true, partners: false }
reconciler: { listener: "", vault: true, orders: true, partners: true }
{{- if .Values.console.enabled }}
console: { listener: console, port: 8083, vault: false, orders: false, partners: false }
{{- end }}
{{- end -}}

{{/* Labels that select the pods of all roles; a role's own label comes with them. Jobs have another name. */}}
{{- define "payfold.selector" -}}
app.kubernetes.io/name: payfold
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "payfold.metadataLabels" -}}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "payfold.labels" -}}
app.kubernetes.io/name: payfold
{{ include "payfold.metadataLabels" . }}
{{- end -}}

{{/* The image, by digest. Given: root and the digest of a role, which may be empty. */}}
{{- define "payfold.image" -}}
{{- $image := .root.Values.image -}}
{{- $repository := required "image.repository is not set: the image's name without a tag" $image.repository -}}
{{- $digest := required "image.digest is not set: sha256: and 64 hexadecimal digits" (.digest | default $image.digest) -}}
{{- printf "%s@%s" $repository $digest -}}
{{- end -}}

{{- define "payfold.log" -}}
{{- required "log is not set: kafka://HOST:PORT,HOST:PORT/PREFIX" .Values.log -}}
{{- end -}}

{{- define "payfold.orders" -}}
{{- required "orders is not set: cql://HOST:PORT,HOST:PORT/KEYSPACE" .Values.orders -}}
{{- end -}}

{{/* The volume with payfold.toml. Given: root and the name of the ConfigMap made of config.files. */}}
{{- define "payfold.configVolume" -}}
{{- $config := .root.Values.config -}}
{{- $given := compact (list $config.existingConfigMap $config.existingSecret (ternary "files" "" (not (empty $config.files)))) -}}
{{- if ne (len $given) 1 -}}
{{- fail "give one of config.files, config.existingConfigMap and config.existingSecret" -}}
{{- end -}}
- name: config
{{- if $config.existingSecret }}
  secret: { secretName: {{ $config.existingSecret | quote }}, defaultMode: 0440 }
{{- else }}
  configMap: { name: {{ $config.existingConfigMap | default .made | quote }}, defaultMode: 0444 }
{{- end }}
{{- end -}}

{{- define "payfold.configData" -}}
{{- if not (hasKey .Values.config.files "payfold.toml") -}}
{{- fail "config.files has no payfold.toml" -}}
{{- end -}}
data:
{{- range $name, $content := .Values.config.files }}
  {{ $name | quote }}: {{ toJson $content }}
{{- end }}
{{- end -}}

{{/* The volume with the vault's key files. Given: root and the role. */}}
{{- define "payfold.vaultVolume" -}}
{{- $vault := .root.Values.vault -}}
{{- if eq (empty $vault.existingSecret) (empty $vault.csi) -}}
{{- fail "give one of vault.existingSecret and vault.csi" -}}
{{- end -}}
- name: keys
{{- if $vault.existingSecret }}
  secret: { secretName: {{ replace "{role}" .role $vault.existingSecret | quote }}, defaultMode: 0440 }
{{- else }}
  csi: {{ $vault.csi | toJson }}
{{- end }}
{{- end -}}

{{/* What every process finds in its environment, whatever payfold.toml says. */}}
{{- define "payfold.commonEnv" -}}
- { name: PAYFOLD_CONFIG, value: /etc/payfold/payfold.toml }
# A folder in the volume, which the program makes for itself alone.
- { name: PAYFOLD_DATA, value: /var/lib/payfold/data }
- { name: PAYFOLD_LOG, value: {{ include "payfold.log" . | quote }} }
{{- end -}}

{{/* Where pods and containers run. Fields of the pod. */}}
{{- define "payfold.podFields" -}}
automountServiceAccountToken: false
# A Service named payfold would make PAYFOLD_* variables, which are settings' names.
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  # Mounted secrets belong to root and this group.
  fsGroup: 65532
  seccompProfile: { type: RuntimeDefault }
{{- with .Values.image.pullSecrets }}
imagePullSecrets: {{ toJson . }}
{{- end }}
{{- with .Values.serviceAccountName }}
serviceAccountName: {{ . | quote }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{ toJson . }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{ toJson . }}
{{- end }}
{{- end -}}

{{- define "payfold.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
runAsNonRoot: true
capabilities: { drop: [ALL] }
{{- end -}}

{{/* Egress of a pod, as rules. Given: root and whether it reaches the database (`orders`) and partners; or `admin`, the pods
whose admin listeners it reaches, and no engine. */}}
{{- define "payfold.egress" -}}
{{- $policy := .root.Values.networkPolicy -}}
{{- $rules := list (dict "to" $policy.dnsTo "ports" (list (dict "protocol" "UDP" "port" 53) (dict "protocol" "TCP" "port" 53))) -}}
{{- if .admin -}}
{{- $rules = append $rules (dict "to" .admin "ports" (include "payfold.tcp" (list 9464) | fromJsonArray)) -}}
{{- else -}}
{{- $kafka := concat (include "payfold.portsOf" (include "payfold.log" .root) | fromJsonArray) $policy.kafkaPorts -}}
{{- $rules = append $rules (dict "to" $policy.kafkaTo "ports" (include "payfold.tcp" $kafka | fromJsonArray)) -}}
{{- end -}}
{{- if .orders -}}
{{- $cql := concat (include "payfold.portsOf" (include "payfold.orders" .root) | fromJsonArray) $policy.cqlPorts -}}
{{- $rules = append $rules (dict "to" $policy.cqlTo "ports" (include "payfold.tcp" $cql | fromJsonArray)) -}}
{{- end -}}
{{- if .partners -}}
{{- $rules = append $rules (dict "to" $policy.partnersTo "ports" (include "payfold.tcp" $policy.partnerPorts | fromJsonArray)) -}}
{{- end -}}
{{- range $rules }}
{{- /* A rule without `to` allows every address, so one with an empty list is left out. */}}
{{- if .to }}
- {{ toJson . }}
{{- end }}
{{- end }}
{{- end -}}

{{/* The ports that a URL of engines names, as JSON. */}}
{{- define "payfold.portsOf" -}}
{{- $ports := list -}}
{{- range regexFindAll ":[0-9]+[,/]" . -1 -}}
{{- $ports = append $ports (regexFind "[0-9]+" . | int) -}}
{{- end -}}
{{- toJson $ports -}}
{{- end -}}

{{- define "payfold.tcp" -}}
{{- $rules := list -}}
{{- range (. | uniq) -}}
{{- $rules = append $rules (dict "protocol" "TCP" "port" (int .)) -}}
{{- end -}}
{{- toJson $rules -}}
{{- end -}}
