"""Reading of measured records, configurations and oracle rows, ours or anyone's, liberally."""
