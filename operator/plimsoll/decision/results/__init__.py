"""The consequences of an outcome: a report, the objects to apply, and when to look again."""
