"""Context templates: the story string and the separators of a text-completion prompt."""
