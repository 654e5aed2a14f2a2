"""SillyTavern's chat-completion prompt: collection, assembly within a budget, request."""
