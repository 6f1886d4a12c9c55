"""The CRDs: made from the pydantic models, and what the API server does with objects by them."""
