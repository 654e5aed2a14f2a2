"""Chat history and variables: protocols and in-memory versions."""
