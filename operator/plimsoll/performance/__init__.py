"""How fast an option serves, and what that costs."""
