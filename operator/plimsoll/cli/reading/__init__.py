"""Files, manifests and models that several commands read."""
