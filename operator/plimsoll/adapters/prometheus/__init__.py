"""Live signals of engines, from Prometheus or from the pods themselves."""
