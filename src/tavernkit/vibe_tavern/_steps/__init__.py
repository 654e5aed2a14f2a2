"""The steps of a VibeTavern build, one a file."""
