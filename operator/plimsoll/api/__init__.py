"""The InferenceDeployment API: pydantic models in, domain values out, and the CRD generated from the same models."""
