"""Jinja chat templates: a model's own prompt format, run in a sandbox."""
