"""Jinja chat templates: a model's own prompt format, run in a sandbox."""

from tavernkit.risu_ai._chat_templates.named import NAMED_TEMPLATES, apply_named_template
from tavernkit.risu_ai._chat_templates.template import ChatTemplate

__all__ = ["NAMED_TEMPLATES", "ChatTemplate", "apply_named_template"]
