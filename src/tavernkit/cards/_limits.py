"""Safety limits for untrusted input: named constants, and a value that callers can change per call."""

from __future__ import annotations

from dataclasses import fields

from tavernkit._arguments import require
from tavernkit._dataclass import dataclass
from tavernkit.errors import ConfigError

KIB = 1024
MIB = 1024 * KIB

MAX_FILE_BYTES = 256 * MIB
"""A stream that cannot be read twice is copied into memory up to this size."""
MAX_JSON_FILE_BYTES = 32 * MIB
"""A stand-alone JSON card; data URIs may make it large."""
MAX_YAML_BYTES = 1 * MIB
MAX_YAML_NODES = 100_000
"""Nodes of a YAML document after its aliases are expanded."""
MAX_JSON_DEPTH = 256
"""Arrays and objects inside each other, in JSON and YAML."""

MAX_ENTRIES = 2000
"""Members of an archive."""
MAX_ENTRY_BYTES = 10 * MIB
"""One member of an archive, one embedded asset, one module."""
MAX_TOTAL_BYTES = 50 * MIB
"""All bytes that are decompressed from an archive in one call."""
MAX_JSON_BYTES = 2 * MIB
"""A JSON member of an archive."""
MAX_COMPRESSION_RATIO = 200
"""Uncompressed size divided by compressed size, according to the archive's directory."""
MAX_NAME_BYTES = 1024
"""The name of an archive's member."""

MAX_TEXT_CHUNK_BYTES = 5 * MIB
"""A text chunk of a PNG that contains a card."""
MAX_INFLATED_TEXT_BYTES = 2 * MIB
"""The text of a compressed text chunk."""
MAX_CHUNKS = 65_536
"""Chunks or segments of an image file."""
MAX_IMAGE_BYTES = 64 * MIB
"""A picture that is read into memory as a whole."""

MAX_BUILD_STEPS = 1_000_000
"""Macros that all texts of one build may run in total, and other work that counts the same."""
MAX_BUILD_CHARACTERS = 50_000_000
"""Characters that the macros of all texts of one build may produce in total."""

MAX_BUILD_MEMORY = 512 * MIB
"""Bytes that one build may keep: its texts, the variables it wrote, the messages that a template prints.

Estimated as one byte per character, four in non-ASCII texts, because real sizes depend on the interpreter.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of one call that reads a file or builds a prompt; all must be positive."""

    max_file_bytes: int = MAX_FILE_BYTES
    """Bytes that are kept of a stream that cannot be read twice (256 MiB)."""
    max_json_file_bytes: int = MAX_JSON_FILE_BYTES
    """Bytes of a stand-alone JSON card (32 MiB; ``data:`` URIs make cards large)."""
    max_yaml_bytes: int = MAX_YAML_BYTES
    """Bytes of a YAML document (1 MiB)."""
    max_yaml_nodes: int = MAX_YAML_NODES
    """Nodes of a YAML document after its aliases are expanded (100,000)."""
    max_json_depth: int = MAX_JSON_DEPTH
    """Arrays and objects inside each other, in JSON and YAML (256)."""
    max_entries: int = MAX_ENTRIES
    """Members of an archive (2,000)."""
    max_entry_bytes: int = MAX_ENTRY_BYTES
    """Bytes of one member of an archive, one embedded asset or one module (10 MiB)."""
    max_total_bytes: int = MAX_TOTAL_BYTES
    """Bytes that are unpacked from an archive, or from the text chunks of a PNG, in one call (50 MiB)."""
    max_json_bytes: int = MAX_JSON_BYTES
    """Bytes of a JSON member of an archive (2 MiB)."""
    max_compression_ratio: int = MAX_COMPRESSION_RATIO
    """Unpacked size divided by packed size, according to the archive's directory (200)."""
    max_name_bytes: int = MAX_NAME_BYTES
    """Bytes of the name of an archive's member (1,024)."""
    max_text_chunk_bytes: int = MAX_TEXT_CHUNK_BYTES
    """Bytes of a text chunk of a PNG that holds a card (5 MiB)."""
    max_inflated_text_bytes: int = MAX_INFLATED_TEXT_BYTES
    """Bytes of the unpacked text of a compressed text chunk (2 MiB)."""
    max_chunks: int = MAX_CHUNKS
    """Chunks or segments of an image file (65,536)."""
    max_image_bytes: int = MAX_IMAGE_BYTES
    """Bytes of a picture that is read into memory as a whole (64 MiB)."""
    max_build_steps: int = MAX_BUILD_STEPS
    """Macros that all texts of one build may run together (1,000,000)."""
    max_build_characters: int = MAX_BUILD_CHARACTERS
    """Characters that the macros of all texts of one build may produce together (50,000,000)."""
    max_build_memory: int = MAX_BUILD_MEMORY
    """Bytes that one build may keep of texts, variables and messages, as estimated (512 MiB)."""
    allow_encrypted: bool = False
    """Open archives with encrypted members, which cannot be read in any case."""

    def __post_init__(self) -> None:
        for field in fields(self):
            if field.name == "allow_encrypted":
                continue
            value: int = getattr(self, field.name)
            require(field.name, value, int, "a positive whole number")
            if value < 1:
                raise ConfigError(f"{field.name} must be a positive whole number, not {value!r}")


DEFAULT_LIMITS = Limits()
"""The default limits."""
