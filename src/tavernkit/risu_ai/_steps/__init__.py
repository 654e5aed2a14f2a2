"""The steps of a RisuAI build, one a file."""
