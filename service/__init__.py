"""The inference service: HTTP in, contract in the middle, engine out."""
