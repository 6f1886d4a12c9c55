{{/*
What the operator may do, in four parts: in every namespace that it serves, about nodes, about priorities, and about pods.
It never writes a spec of its own API, never writes a pod or a node, and never lists a Secret.
*/}}
{{- define "plimsoll.rights.served" -}}
- apiGroups: [plimsoll.dev]
  resources: [inferencedeployments]
  verbs: [get, list, watch]
- apiGroups: [plimsoll.dev]
  resources: [inferencedeployments/status]
  verbs: [update]
# Owner references that block deletion need this where OwnerReferencesPermissionEnforcement is on.
- apiGroups: [plimsoll.dev]
  resources: [inferencedeployments/finalizers]
  verbs: [update]
{{- if include "plimsoll.approvals" . }}
# Proposals are its own. Of approvals it writes the status, and deletes answered ones that are too many.
- apiGroups: [plimsoll.dev]
  resources: [placementproposals]
  verbs: [list, create, patch, delete]
- apiGroups: [plimsoll.dev]
  resources: [placementapprovals]
  verbs: [list, delete]
- apiGroups: [plimsoll.dev]
  resources: [placementapprovals/status]
  verbs: [update]
{{- end }}
- apiGroups: [apps]
  resources: [deployments]
  verbs: [get, list, watch, create, patch, delete]
# Jobs copy weights to the claims that spec.model.cache names. Of finished ones another copy takes the place.
- apiGroups: [batch]
  resources: [jobs]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [""]
  resources: [services]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [get, list, watch, create, patch, delete]
{{- if .Values.routing }}
# Routers (spec.routing): their InferencePools, who may connect to them, and their rights.
- apiGroups: [inference.networking.k8s.io]
  resources: [inferencepools]
  verbs: [get, list, watch, create, patch, delete]
{{- if .Values.gatewayRouting }}
# With mode Gateway an HTTPRoute leads from a Gateway to the pool.
- apiGroups: [gateway.networking.k8s.io]
  resources: [httproutes]
  verbs: [get, list, create, patch, delete]
{{- end }}
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies]
  verbs: [get, list, create, patch, delete]
- apiGroups: [""]
  resources: [serviceaccounts]
  verbs: [get, list, create, patch, delete]
- apiGroups: [rbac.authorization.k8s.io]
  resources: [roles]
  verbs: [get, list, create, patch, delete]
- apiGroups: [rbac.authorization.k8s.io]
  resources: [rolebindings]
  verbs: [get, list, create, patch, delete]
# Nobody may grant more than he has: the picker of a router reads these.
- apiGroups: [inference.networking.x-k8s.io]
  resources: [inferenceobjectives]
  verbs: [get, list, watch]
- apiGroups: [inference.networking.x-k8s.io]
  resources: [inferencemodelrewrites]
  verbs: [get, list, watch]
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch]
{{- end }}
# A slow or silent replica ends after a new one serves, within its disruption budget.
- apiGroups: [""]
  resources: [pods/eviction]
  verbs: [create]
# GPUs are not kept for pods that a quota will refuse.
- apiGroups: [""]
  resources: [resourcequotas]
  verbs: [list, watch]
# No pod is placed that a LimitRange refuses.
- apiGroups: [""]
  resources: [limitranges]
  verbs: [list]
# Pods go where the volumes of the claims that their InferenceDeployments name can be mounted.
- apiGroups: [""]
  resources: [persistentvolumeclaims]
  verbs: [get]
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create]
{{- if .Values.hub.readTokenSecrets }}
# Tokens of gated models live in the namespaces of their InferenceDeployments.
- apiGroups: [""]
  resources: [secrets]
  verbs: [get]
{{- end }}
{{- end -}}

{{- define "plimsoll.rights.nodes" -}}
- apiGroups: [""]
  resources: [nodes]
  verbs: [list, watch]
# GPUs that only a DRA driver publishes are named. Without this right, or before Kubernetes 1.34, they are not.
- apiGroups: [resource.k8s.io]
  resources: [resourceslices]
  verbs: [list]
{{- end -}}

{{/* The nodes that can mount a volume. Only those of claims that are named are read. */}}
{{- define "plimsoll.rights.volumes" -}}
- apiGroups: [""]
  resources: [persistentvolumes]
  verbs: [get]
- apiGroups: [storage.k8s.io]
  resources: [storageclasses]
  verbs: [get]
{{- end -}}

{{/* Where not all have room, the higher priority comes first. */}}
{{- define "plimsoll.rights.priorities" -}}
- apiGroups: [scheduling.k8s.io]
  resources: [priorityclasses]
  verbs: [list, watch]
{{- end -}}

{{/* Which Gateways there are, and at which addresses: mostly in a namespace of the cluster's admins. */}}
{{- define "plimsoll.rights.gateways" -}}
- apiGroups: [gateway.networking.k8s.io]
  resources: [gateways]
  verbs: [list]
{{- end -}}

{{- define "plimsoll.rights.pods" -}}
- apiGroups: [""]
  resources: [pods]
  verbs: [list, watch]
# A claim holds GPUs that a device plugin may offer as well. Without this right, or before Kubernetes 1.34, they count as free.
- apiGroups: [resource.k8s.io]
  resources: [resourceclaims]
  verbs: [list]
{{- end -}}

{{/* The operator as the subject of a binding. */}}
{{- define "plimsoll.subjects" -}}
- kind: ServiceAccount
  name: {{ include "plimsoll.serviceAccountName" . }}
  namespace: {{ .Release.Namespace }}
{{- end -}}
