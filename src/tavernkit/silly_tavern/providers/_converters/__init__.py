"""Messages in the format that SillyTavern's server sends to each provider, including quirks."""
