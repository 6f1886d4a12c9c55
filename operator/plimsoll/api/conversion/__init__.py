"""From the user's object to the planner's request."""
