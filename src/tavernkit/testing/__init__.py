"""A scripted model and test hosts for users' own tests."""
