"""The nine steps of a build, one a module."""
