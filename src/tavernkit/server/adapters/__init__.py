"""How each platform runs a turn: its requests to a model, and what it does with the reply."""
