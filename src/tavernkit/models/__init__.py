"""Models: everything between a request and its reply.

>>> import tavernkit as tk
>>> from tavernkit.prompt import Message
>>> request = tk.Request(model="gpt-4o", messages=(Message("user", "Hi"),), options={"temperature": 0.7})
>>> request.body()["temperature"]
0.7
"""

from tavernkit._lazy import lazy_exports

__getattr__, __all__ = lazy_exports(__name__)
