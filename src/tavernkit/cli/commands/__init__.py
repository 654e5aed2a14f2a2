"""One module per command, each with ``register(app)``; heavy modules are imported when a command runs."""
