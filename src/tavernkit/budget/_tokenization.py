"""The tokens of a text, as an estimator reports them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from tavernkit._dataclass import dataclass
from tavernkit._values import EMPTY_OBJECT, FrozenObject, JsonObject, thaw_object


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokenization:
    """The tokens of a text, in as much detail as the backend provides.

    ``offsets`` are character positions (start, end) of each token; a token that is only part of a character spans it.
    """

    backend: str
    """The name of the tokenizer or of the estimator's class."""
    token_count: int
    """How many tokens the text has."""
    ids: Sequence[int] | None = None
    """The token ids, if the backend provides them."""
    tokens: Sequence[str] | None = None
    """The text of each token, if the backend provides it."""
    offsets: Sequence[tuple[int, int]] | None = None
    details: FrozenObject = field(default_factory=lambda: EMPTY_OBJECT)
    """Other information about the backend."""

    @property
    def detailed(self) -> bool:
        """True if there is more than a number."""
        return self.ids is not None or self.tokens is not None or self.offsets is not None

    def to_dict(self) -> JsonObject:
        """Everything that is known, ready for ``json``."""
        plain: JsonObject = {"backend": self.backend, "token_count": self.token_count}
        if self.ids is not None:
            plain["ids"] = list(self.ids)
        if self.tokens is not None:
            plain["tokens"] = list(self.tokens)
        if self.offsets is not None:
            plain["offsets"] = [[start, end] for start, end in self.offsets]
        if self.details:
            plain["details"] = thaw_object(self.details)
        return plain


def byte_token_offsets(text: str, pieces: Sequence[bytes]) -> list[tuple[int, int]] | None:
    """Return the character span of each byte-level token; None if the tokens do not match the text."""
    data = text.encode("utf-8", "replace")
    if b"".join(pieces) != data:
        return None
    # character_at[i] is the index of the character that byte i belongs to.
    character_at = [0] * (len(data) + 1)
    index = -1
    for position, byte in enumerate(data):
        if byte & 0xC0 != 0x80:
            index += 1
        character_at[position] = index
    character_at[len(data)] = index + 1
    spans: list[tuple[int, int]] = []
    start = 0
    for piece in pieces:
        end = start + len(piece)
        spans.append((character_at[start], character_at[end - 1] + 1 if piece else character_at[start]))
        start = end
    return spans
