"""The service's storage: tables, connections, and operations on them."""
