"""The steps of a RisuAI build, one per file."""
