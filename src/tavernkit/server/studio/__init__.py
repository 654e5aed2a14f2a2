"""Studio in the service."""
