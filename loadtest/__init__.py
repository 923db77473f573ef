"""Load on the service, and on others beside it."""
