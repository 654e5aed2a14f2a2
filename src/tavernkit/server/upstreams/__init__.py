"""The model servers behind the service."""
