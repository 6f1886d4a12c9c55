"""Mutation tests of the decision code: small changes to it, and whether a test notices each of them."""
