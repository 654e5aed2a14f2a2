"""A chat over many turns: its state, and what every operation does to it."""
