"""The measurements: the engines' and the gateway's metrics as the traffic and the load of a deployment."""
