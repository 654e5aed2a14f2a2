"""Text completion: one prompt text and its stop strings."""
