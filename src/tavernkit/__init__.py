"""TavernKit: the same files in, the same prompt out, byte for byte, with an explanation of every piece.

>>> import tavernkit as tk
>>> from tavernkit.examples import example_path
>>> tk.load(example_path("aria.json")).character.name
'Aria'
"""

from tavernkit._lazy import lazy_exports

__version__ = "0.2.0"

__getattr__, __all__ = lazy_exports(__name__)
