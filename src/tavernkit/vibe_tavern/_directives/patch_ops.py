"""Normalises the patch operations that models write for drafts and interface state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tavernkit._dataclass import dataclass
from tavernkit._text import strict_json
from tavernkit._text.coerce import trim_blanks
from tavernkit._values import JsonObject, is_mapping, is_sequence, thaw, thaw_object
from tavernkit.vibe_tavern._options import integer

DEFAULT_PATH_PREFIXES = ("/draft/", "/ui_state/")

_ALIASES = {"add": "set", "replace": "set", "remove": "delete", "rm": "delete", "push": "append"}
_OPS = ("set", "delete", "append", "insert")
_ROOTS = ("draft/", "ui_state/")
_QUOTES = "\"'`"


@dataclass(frozen=True, slots=True)
class PatchOps:
    """Operations in canonical form, or the code of the first error."""

    ops: Sequence[JsonObject] = ()
    """The operations: ``op``, ``path`` and, unless deleted, ``value``."""
    code: str | None = None
    """What is wrong with the first bad operation, such as ``INVALID_PATCH_PATH``; None if nothing is."""
    details: JsonObject | None = None
    """Which operation that is, and why."""

    @property
    def ok(self) -> bool:
        """True if every operation could be read."""
        return self.code is None

    def to_dict(self) -> JsonObject:
        """The result as JSON."""
        if self.code is None:
            return {"ok": True, "ops": list(self.ops)}
        failure: JsonObject = {"ok": False, "code": self.code}
        if self.details is not None:
            failure["details"] = self.details
        return failure


def normalize_patch_ops(ops: object, *, allowed_path_prefixes: Sequence[str] | None = None) -> PatchOps:
    """Read a list of operations (or one, or JSON text of either) into ``set``, ``delete``, ``append``, ``insert``.

    Paths must be below an allowed prefix; a path without a root is put below the first prefix.

    Args:
        ops: What the model wrote.
        allowed_path_prefixes: Prefixes of paths; by default ``/draft/`` and ``/ui_state/``.
    """
    prefixes = tuple(trim_blanks(str(prefix)) for prefix in allowed_path_prefixes or () if trim_blanks(str(prefix)))
    prefixes = prefixes or DEFAULT_PATH_PREFIXES
    listed = _as_list(ops)
    if not listed:
        return PatchOps(code="MISSING_OPS")
    normal: list[JsonObject] = []
    for index, op in enumerate(listed):
        result = _normalize(op, index, prefixes)
        if isinstance(result, PatchOps):
            return result
        normal.append(result)
    return PatchOps(ops=normal)


def _as_list(ops: object) -> list[object]:
    if isinstance(ops, str):
        try:
            ops = strict_json.loads(ops)
        except ValueError:
            return []
    if is_mapping(ops):
        return [ops] if ops else []
    return list(ops) if is_sequence(ops) else []


def _normalize(op: object, index: int, prefixes: Sequence[str]) -> JsonObject | PatchOps:
    if not is_mapping(op):
        return PatchOps(code="INVALID_PATCH_OP", details={"index": index, "op": ""})
    name = _op_name(op)
    if name not in _OPS:
        return PatchOps(code="INVALID_PATCH_OP", details={"index": index, "op": name})
    path = _path(op.get("path"), prefixes)
    if path is None or not path.startswith(tuple(prefixes)):
        return PatchOps(code="INVALID_PATCH_PATH", details={"index": index, "path": path or ""})
    if name != "delete" and "value" not in op:
        return PatchOps(code="MISSING_PATCH_VALUE", details={"index": index, "op": name})
    normal = thaw_object(op) | {"op": name, "path": path}  # other keys of an operation stay
    if name == "insert":
        position = integer(op.get("index"))
        if position is None:
            return PatchOps(code="INVALID_PATCH_INDEX", details={"index": index, "raw_index": thaw(op.get("index"))})
        normal["index"] = position
    return normal


def _op_name(op: Mapping[str, object]) -> str:
    name = trim_blanks(strict_json.plain_text(op.get("op"))).lower()
    if not name:
        return "set" if "value" in op else "delete"
    return _ALIASES.get(name, name)


def _path(given: object, prefixes: Sequence[str]) -> str | None:
    path = trim_blanks(trim_blanks(strict_json.plain_text(given)).strip(_QUOTES))
    if not path:
        return None
    if path.startswith("/"):
        return path
    if path.startswith(_ROOTS):  # these two names, whatever prefixes are allowed
        return f"/{path}"
    default = DEFAULT_PATH_PREFIXES[0] if DEFAULT_PATH_PREFIXES[0] in prefixes else prefixes[0]
    return f"{default.removesuffix('/')}/{path}"
