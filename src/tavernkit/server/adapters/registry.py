"""The adapters of the platforms, by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from tavernkit._values import JsonObject, is_object
from tavernkit.server.adapters import silly_tavern_lines
from tavernkit.server.adapters.silly_tavern import SillyTavernAdapter
from tavernkit.server.adapters.turn import neutral_line
from tavernkit.server.adapters.vectors import Vectors
from tavernkit.server.library.library import RISU_AI, Cast
from tavernkit.server.storage.lines import PARTIAL, ChatLine
from tavernkit.server.turns.request import NewMessage
from tavernkit.server.turns.scheduling import BuildExecutor
from tavernkit.silly_tavern import DataFolder

if TYPE_CHECKING:
    from tavernkit.server.adapters.risu_ai import RisuAdapter


class Adapters:
    """One adapter per platform."""

    def __init__(
        self, build_executor: BuildExecutor, vectors: Vectors, *, clean_up: bool = True, served: Path | None = None
    ) -> None:
        """Make the adapters.

        Args:
            build_executor: Runs builds.
            vectors: The index of Vector Storage.
            clean_up: Clean replies up before they are stored, as SillyTavern does.
            served: The data folder that is served: tokenizer files of its installation count tokens.
        """
        tokenizers = DataFolder(served).tokenizers if served is not None else None
        self._silly_tavern = SillyTavernAdapter(build_executor, vectors, clean_up=clean_up, tokenizers=tokenizers)
        self._build_executor = build_executor

    @cached_property
    def _risu_ai(self) -> RisuAdapter:
        """Made on first use, so that startup need not load RisuAI's engines."""
        from tavernkit.server.adapters.risu_ai import RisuAdapter

        return RisuAdapter(self._build_executor)

    def of(self, platform: str) -> SillyTavernAdapter | RisuAdapter:
        """Return the adapter of a platform."""
        return self._risu_ai if platform == RISU_AI else self._silly_tavern

    def new_lines(self, messages: Sequence[NewMessage], cast: Cast, user_name: str) -> list[ChatLine]:
        """Return the lines of what a client adds to a chat."""
        adapter = self.of(cast.selection.platform)
        persona = cast.persona or cast.opened_persona
        name = persona.name if persona is not None else user_name
        avatar = cast.user_avatar
        return [_line(adapter, message, name, avatar) for message in messages]

    def partial_line(self, said: JsonObject, cast: Cast) -> ChatLine:
        """Return the line of a partial reply."""
        text, speaker = str(said.get("text")), str(said.get("speaker") or cast.name)
        if cast.selection.platform == RISU_AI:
            return replace(self._risu_ai.reply_line(text), status=PARTIAL)
        avatars = {bundle.character.name: cast.avatar(member) for member, bundle in cast.members.items()}
        return silly_tavern_lines.partial_reply(text, speaker, avatar=avatars.get(speaker), reason="the server stopped")


def _line(
    adapter: SillyTavernAdapter | RisuAdapter, message: NewMessage, user_name: str, avatar: str | None
) -> ChatLine:
    metadata = message.metadata
    if message.role == "user":
        extra, name = metadata.get("extra"), metadata.get("name")
        return adapter.user_line(
            message.content,
            user_name=user_name,
            extra=extra if is_object(extra) else None,
            name=name if isinstance(name, str) else "",
            avatar=avatar,
        )
    is_reply = message.role == "assistant" and not metadata.get("tool_calls")
    if is_reply and not isinstance(adapter, SillyTavernAdapter):
        return adapter.reply_line(message.content)
    return neutral_line(message.role, message.content, metadata)


def pending_line(lines: Sequence[ChatLine]) -> str | None:
    """Return the line that is being sent, if the last one is the user's."""
    return lines[-1].id if lines and lines[-1].role == "user" else None
