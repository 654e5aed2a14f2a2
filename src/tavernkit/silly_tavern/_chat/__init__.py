"""A chat on its way into a prompt: lines, persona, author's note, examples, reasoning."""
