"""The chat as part of a prompt: messages, examples, groups, inlays."""
