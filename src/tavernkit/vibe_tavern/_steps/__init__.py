"""The steps of a VibeTavern build, one per file."""
