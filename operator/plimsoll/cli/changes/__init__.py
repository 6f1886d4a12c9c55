"""Changes after which a load fits, tried with the same estimate."""
