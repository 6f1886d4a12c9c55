"""The peers: published formulas re-implemented from their description, and packages in environments of their own."""
