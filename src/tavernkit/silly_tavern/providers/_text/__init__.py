"""Requests to text-completion backends: the page's body from a sampler preset, then the backend's request."""
