"""Group, version and kind of the API. Written once; code, chart and docs follow."""

from __future__ import annotations

GROUP = "plimsoll.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
KIND = "InferenceDeployment"
PLURAL = "inferencedeployments"
SINGULAR = "inferencedeployment"
SHORT_NAME = "infd"
CATEGORY = "inference"
