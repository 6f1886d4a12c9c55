"""The live load: what Prometheus says of it now and in the last hour."""
