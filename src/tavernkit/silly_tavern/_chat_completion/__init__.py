"""SillyTavern's chat-completion prompt: collection, budgeted assembly, request."""
