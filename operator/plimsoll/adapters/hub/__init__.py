"""Facts from the web: models of a hub, files of checkpoints, and images of registries."""
