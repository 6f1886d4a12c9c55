{{/* The name of every object: fixed, because one operator serves the whole cluster. */}}
{{- define "plimsoll.fullname" -}}
{{- default "plimsoll" .Values.fullnameOverride | trunc 52 | trimSuffix "-" -}}
{{- end -}}

{{- define "plimsoll.selectorLabels" -}}
app.kubernetes.io/name: plimsoll
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "plimsoll.labels" -}}
{{ include "plimsoll.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* The console's pods have another name, so that no selector of the operator finds them. */}}
{{- define "plimsoll.consoleSelectorLabels" -}}
app.kubernetes.io/name: plimsoll-console
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "plimsoll.consoleLabels" -}}
{{ include "plimsoll.consoleSelectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "plimsoll.testLabels" -}}
app.kubernetes.io/name: plimsoll-test
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "plimsoll.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "plimsoll.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/* Whether a repository begins with a registry: its first part has a dot or a port, or is "localhost". */}}
{{- define "plimsoll.namesRegistry" -}}
{{- $host := first (splitList "/" .) -}}
{{- if and (contains "/" .) (or (contains "." $host) (contains ":" $host) (eq $host "localhost")) -}}true{{- end -}}
{{- end -}}

{{- define "plimsoll.image" -}}
{{- $registry := default .Values.image.registry .Values.global.imageRegistry -}}
{{- $version := default .Chart.AppVersion .Values.image.tag -}}
{{- $repository := .Values.image.repository -}}
{{- if not (include "plimsoll.namesRegistry" $repository) -}}
{{- if not $registry -}}
{{- fail (printf "image.registry is empty, and image.repository %q names no registry: no public registry has this image. Build and push it (podman build --file Containerfile --tag REGISTRY/%s:%s . && podman push REGISTRY/%s:%s), then add --set image.registry=REGISTRY, or set global.imageRegistry." $repository $repository $version $repository $version) -}}
{{- end -}}
{{- $repository = printf "%s/%s" $registry $repository -}}
{{- end -}}
{{- if .Values.image.digest -}}
{{ $repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ $repository }}:{{ $version }}
{{- end -}}
{{- end -}}

{{/* The engines' registry: as with the operator's image, the global one wins. */}}
{{- define "plimsoll.engineRegistry" -}}
{{ default .Values.engine.registry .Values.global.imageRegistry }}
{{- end -}}

{{/* The ConfigMap with the fleet file; empty where nodes are read from the cluster. */}}
{{- define "plimsoll.fleetConfigMap" -}}
{{- if and .Values.fleet.file .Values.fleet.configMap -}}
{{- fail "fleet.file and fleet.configMap are both set: keep one of them." -}}
{{- end -}}
{{- $given := or .Values.fleet.file .Values.fleet.configMap -}}
{{- if and .Values.fleet.readNodes $given -}}
{{- fail "fleet.readNodes is true and a fleet file is given: set fleet.readNodes=false to plan with the file, or remove fleet.file and fleet.configMap." -}}
{{- end -}}
{{- if not .Values.fleet.readNodes -}}
{{- if not $given -}}
{{- fail "fleet.readNodes is false and there is no fleet file: add --set-file fleet.file=fleet.yaml (kubectl get nodes -o yaml > fleet.yaml), or name a ConfigMap in fleet.configMap." -}}
{{- end -}}
{{- default (printf "%s-fleet" (include "plimsoll.fullname" .)) .Values.fleet.configMap -}}
{{- end -}}
{{- end -}}

{{/* The Secret with what Prometheus asks for; empty where it asks for nothing. Halves of a pair are named here. */}}
{{- define "plimsoll.prometheusSecret" -}}
{{- $secret := .Values.prometheus.auth.existingSecret -}}
{{- $user := .Values.prometheus.auth.username -}}
{{- $keys := dict "tokenKey" .Values.prometheus.auth.tokenKey "passwordKey" .Values.prometheus.auth.passwordKey "certificateKey" .Values.prometheus.auth.certificateKey "privateKeyKey" .Values.prometheus.auth.privateKeyKey "caKey" .Values.prometheus.auth.caKey "headersKey" .Values.prometheus.auth.headersKey -}}
{{- $given := list -}}
{{- range $name, $key := $keys -}}{{- if $key -}}{{- $given = append $given $name -}}{{- end -}}{{- end -}}
{{- if and $given (not $secret) -}}
{{- fail (printf "prometheus.auth.%s is %q, and prometheus.auth.existingSecret is empty: name the Secret that has this key." (first $given) (get $keys (first $given))) -}}
{{- end -}}
{{- if and $user (not $keys.passwordKey) -}}
{{- fail (printf "prometheus.auth.username is %q, and prometheus.auth.passwordKey is empty: name the key of the password." $user) -}}
{{- end -}}
{{- if and $secret (not $given) -}}
{{- fail (printf "prometheus.auth.existingSecret is %q, and no key of it is named: set tokenKey, passwordKey, certificateKey, caKey or headersKey." $secret) -}}
{{- end -}}
{{- if and $secret (not .Values.prometheus.url) -}}
{{- fail (printf "prometheus.auth.existingSecret is %q, and prometheus.url is empty: set the address of Prometheus, or remove prometheus.auth." $secret) -}}
{{- end -}}
{{- if and $keys.passwordKey (not $user) -}}
{{- fail (printf "prometheus.auth.passwordKey is %q, and prometheus.auth.username is empty: set the user." $keys.passwordKey) -}}
{{- end -}}
{{- if and $keys.tokenKey $user -}}
{{- fail (printf "prometheus.auth.tokenKey is %q, and prometheus.auth.username is %q: a request carries one of them, remove the other." $keys.tokenKey $user) -}}
{{- end -}}
{{- if and $keys.certificateKey (not $keys.privateKeyKey) -}}
{{- fail (printf "prometheus.auth.certificateKey is %q, and prometheus.auth.privateKeyKey is empty: name the key of the private key." $keys.certificateKey) -}}
{{- end -}}
{{- if and $keys.privateKeyKey (not $keys.certificateKey) -}}
{{- fail (printf "prometheus.auth.privateKeyKey is %q, and prometheus.auth.certificateKey is empty: name the key of the certificate." $keys.privateKeyKey) -}}
{{- end -}}
{{- $secret -}}
{{- end -}}

{{- define "plimsoll.pricesName" -}}
{{ include "plimsoll.fullname" . }}-prices
{{- end -}}

{{/* Whether people can approve proposals. Without an admission policy (1.30), anybody could approve in any name. */}}
{{- define "plimsoll.approvals" -}}
{{- if and .Values.approvals (include "plimsoll.hasAdmissionPolicies" .) -}}true{{- end -}}
{{- end -}}

{{/* Whether the Kubernetes release has ValidatingAdmissionPolicy. A list of APIs would not do: who renders the chart without a
cluster, as `helm template` and GitOps controllers do, has none. */}}
{{- define "plimsoll.hasAdmissionPolicies" -}}
{{- if semverCompare ">=1.30.0-0" .Capabilities.KubeVersion.Version -}}true{{- end -}}
{{- end -}}
