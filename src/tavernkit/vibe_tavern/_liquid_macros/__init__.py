"""Liquid templates with chat variables, deterministic randomness and time (extra ``liquid``)."""
