"""What is made of the CRDs for people who write manifests: a page, and schemas for editors."""
