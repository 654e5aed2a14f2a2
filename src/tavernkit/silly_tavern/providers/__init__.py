"""Requests to every provider, exactly as SillyTavern sends them, including quirks.

SillyTavern makes a request in two steps, and so does this package. Its page makes a body from the preset and the
prompt: ``chat_page_body()`` and ``text_page_body()``. Its server makes the provider's request from that body:
``chat_request()`` and ``text_request()``.

>>> from tavernkit.silly_tavern import Preset
>>> from tavernkit.silly_tavern.providers import ChatInput, Connection, chat_page_body, chat_request
>>> preset = Preset.from_json({"chat_completion_source": "groq", "groq_model": "llama-3.3-70b-versatile"})
>>> body = chat_page_body(preset, [{"role": "user", "content": "Hello"}], ChatInput(stop_strings=["END"]))
>>> request = chat_request(body, Connection(key="a key"))
>>> request.method, request.url
('POST', 'https://api.groq.com/openai/v1/chat/completions')
>>> request.masked().headers["authorization"]
'Bearer <key>'
"""

from tavernkit._lazy import lazy_exports

__getattr__, __all__ = lazy_exports(__name__)
