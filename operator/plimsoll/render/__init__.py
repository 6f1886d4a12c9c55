"""From outcome to desired objects: pure dictionaries, diff-stable."""
