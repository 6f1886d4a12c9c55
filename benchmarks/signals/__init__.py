"""The cost of reading the metrics of thousands of engines from a real Prometheus, and of their turns."""
