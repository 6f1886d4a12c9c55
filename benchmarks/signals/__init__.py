"""What it takes to read the metrics of thousands of engines from a real Prometheus, and to take their turns."""
