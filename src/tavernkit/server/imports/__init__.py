"""Imported archives, folders and saves, and what is written back to them."""
