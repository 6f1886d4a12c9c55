"""The cluster as watches and lists report it: what is kept of each object, and what others change."""
