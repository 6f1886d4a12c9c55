"""Step 5 of a pass: everything that the operator writes into the cluster."""
