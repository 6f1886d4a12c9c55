"""The pools of a deployment as they run, and the changes of them that are under way."""
