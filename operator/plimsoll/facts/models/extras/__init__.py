"""What some classes keep beside mixers, MLPs and norms."""
