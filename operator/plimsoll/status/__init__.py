"""The status of an object as a record: the only place that reads one into values, and that makes one from values."""
