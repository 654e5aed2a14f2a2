"""One module a command, each with ``register(app)``; heavy things are imported when a command runs."""
