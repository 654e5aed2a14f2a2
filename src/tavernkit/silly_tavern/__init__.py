"""Parity with SillyTavern 1.19.0."""
