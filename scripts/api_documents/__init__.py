"""A page and schemas for editors, made of the CRDs for people who write manifests."""
