"""Prompt templates: the cards, the slots they print, and the walk that makes messages of them."""
