"""Messages in the form each provider gets from SillyTavern's server, quirks included."""
