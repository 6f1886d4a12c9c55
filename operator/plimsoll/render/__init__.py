"""From outcome to desired objects and status: pure dictionaries, diff-stable."""
