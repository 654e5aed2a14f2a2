"""How each platform carries on a chat: what it asks a model, and what becomes of the reply."""
