"""Counting tokens exactly as SillyTavern counts them."""
