"""Counts tokens exactly as SillyTavern does."""
