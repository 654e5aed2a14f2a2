"""Run prompts on real models: configuration, tools, directives, language policy."""

from tavernkit._lazy import lazy_exports

__getattr__, __all__ = lazy_exports(__name__)
