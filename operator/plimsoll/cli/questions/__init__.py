"""Questions of ``plimsoll estimate``: the model, the GPU types and the load that are meant."""
