"""A chat over many turns: its state and its operations."""
