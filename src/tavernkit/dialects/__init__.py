"""Messages to provider payloads: one module a provider, and a registry."""
