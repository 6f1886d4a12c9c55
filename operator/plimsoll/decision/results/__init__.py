"""What follows from an outcome: a report, the objects to apply, and when to look again."""
