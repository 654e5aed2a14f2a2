"""The chat as part of a prompt: lines, persona, author's note, examples, reasoning."""
