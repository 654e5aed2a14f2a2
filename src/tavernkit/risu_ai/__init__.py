"""RisuAI: CBS, lorebooks, regex scripts, prompt templates, triggers, memory, and prompts built from them.

>>> from tavernkit import risu_ai                                                     # doctest: +SKIP
>>> plan = risu_ai.build(character=card, user=user, preset=preset, history=chat)      # doctest: +SKIP
"""

from tavernkit._lazy import lazy_exports

__getattr__, __all__ = lazy_exports(__name__)
