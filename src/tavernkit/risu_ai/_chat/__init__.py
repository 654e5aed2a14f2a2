"""A chat on its way into a prompt: messages, examples, groups, inlays."""
