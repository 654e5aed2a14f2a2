"""Fetches and checks the tokenizer files that token estimation uses. Nothing is fetched at run time."""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from http.client import HTTPMessage
from pathlib import Path
from typing import IO, Final, Literal, TypeAlias
from urllib.parse import urlsplit

from tavernkit._arguments import require
from tavernkit._atomic import write_atomically
from tavernkit._dataclass import dataclass
from tavernkit._values import JsonObject
from tavernkit.budget._file_tokenizer import forget_file_tokenizers, load_file_tokenizer
from tavernkit.errors import ConfigError
from tavernkit.vibe_tavern._token_estimation import (
    MODELS,
    TOKENIZER_FILE,
    ModelTokenizer,
    default_tokenizer_root,
    estimator_of,
    tokenizer_path,
)

HUB: Final = "https://huggingface.co"
TOKEN_VARIABLES: Final = ("HF_TOKEN", "HUGGINGFACE_HUB_TOKEN")
MAX_FILE_BYTES: Final = 100_000_000
TIMEOUT_SECONDS: Final = 60.0

Status = Literal["ok", "fetched", "missing", "invalid", "failed", "no_file"]


@dataclass(frozen=True, slots=True)
class Fetched:
    """A file from the hub."""

    content: bytes
    etag: str | None = None
    commit: str | None = None


Fetch: TypeAlias = Callable[[str, Mapping[str, str]], Fetched]
"""Gets a URL and headers; raises ``OSError`` when there is no such file."""


@dataclass(frozen=True, slots=True)
class TokenizerFile:
    """The state of one tokenizer file; ``no_file`` for a tokenizer that needs none."""

    hint: str
    """The tokenizer's short name."""
    status: Status
    """``ok``, ``fetched``, ``missing``, ``invalid``, ``failed`` or ``no_file``."""
    path: Path | None = None
    """Where the file is or should be."""
    problem: str | None = None
    """What went wrong, if something did."""


def check_tokenizers(*, root: Path | None = None, only: Sequence[str] = ()) -> list[TokenizerFile]:
    """Check for each tokenizer whether its file exists and can be loaded.

    Args:
        root: Where the files are; by default the folder that token estimation uses.
        only: Names of tokenizers (``"qwen3"``); by default all.

    Raises:
        ConfigError: There is no tokenizer with that name.
    """
    root = root or default_tokenizer_root()
    return [_check(model, root) for model in _chosen(only)]


def fetch_tokenizers(
    *,
    root: Path | None = None,
    only: Sequence[str] = (),
    force: bool = False,
    fetch: Fetch | None = None,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> list[TokenizerFile]:
    """Fetch missing files, check them, and record where they came from.

    Args:
        root: Where the files are; by default the folder that token estimation uses.
        only: Names of tokenizers (``"qwen3"``); by default all.
        force: Fetch existing files again.
        fetch: Gets a URL and headers, for another hub; by default Hugging Face over HTTPS.
        now: The clock for the record.

    Raises:
        ConfigError: There is no tokenizer with that name.
    """
    root = root or default_tokenizer_root()
    results: list[TokenizerFile] = []
    for model in _chosen(only):
        found = _check(model, root)
        wanted = model.repo is not None and (force or found.status != "ok")
        results.append(_fetch(model, root, fetch or fetch_from_hub, now) if wanted else found)
    return results


class CarefulRedirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects, but keeps the user's token from other servers and never leaves HTTPS."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> urllib.request.Request | None:
        before, after = urlsplit(req.full_url), urlsplit(newurl)
        if before.scheme == "https" and after.scheme != "https":
            raise urllib.error.URLError(f"the hub redirects to {after.scheme}")
        request = super().redirect_request(req, fp, code, msg, headers, newurl)
        if request is not None and before.netloc != after.netloc:
            request.remove_header("Authorization")
        return request


def fetch_from_hub(url: str, headers: Mapping[str, str]) -> Fetched:
    """Fetch a file over HTTPS."""
    request = urllib.request.Request(url, headers=dict(headers))  # noqa: S310  # the hub's own address, always https
    opener = urllib.request.build_opener(CarefulRedirects)
    with opener.open(request, timeout=TIMEOUT_SECONDS) as response:
        content = response.read(MAX_FILE_BYTES + 1)
        if len(content) > MAX_FILE_BYTES:
            raise OSError(f"the file is larger than {MAX_FILE_BYTES} bytes")
        return Fetched(content, response.headers.get("etag"), response.headers.get("x-repo-commit"))


def _chosen(only: Sequence[str]) -> list[ModelTokenizer]:
    require("only", only, Sequence[str])
    known = [model.hint for model in MODELS]
    unknown = [name for name in only if name not in known]
    if unknown:
        raise ConfigError(f"there is no tokenizer {unknown[0]!r}: choose one of {', '.join(known)}")
    return [model for model in MODELS if not only or model.hint in only]


def _check(model: ModelTokenizer, root: Path) -> TokenizerFile:
    if model.repo is None:
        return TokenizerFile(model.hint, "no_file")
    path = tokenizer_path(model.hint, root)
    if not path.is_file():
        return TokenizerFile(model.hint, "missing", path)
    try:
        load_file_tokenizer(str(path))
    except (OSError, ValueError) as error:
        return TokenizerFile(model.hint, "invalid", path, str(error))
    return TokenizerFile(model.hint, "ok", path)


def _fetch(model: ModelTokenizer, root: Path, fetch: Fetch, now: Callable[[], datetime]) -> TokenizerFile:
    path = tokenizer_path(model.hint, root)
    url = f"{HUB}/{model.repo}/resolve/main/{TOKENIZER_FILE}"
    token = next((value for name in TOKEN_VARIABLES if (value := os.environ.get(name))), None)
    try:
        file = fetch(url, {"Authorization": f"Bearer {token}"} if token else {})
        json.loads(file.content)
    except (OSError, urllib.error.URLError, ValueError, RecursionError) as error:
        return TokenizerFile(model.hint, "failed", path, f"{type(error).__name__}: {error}")
    write_atomically(path, file.content)
    source: JsonObject = {
        "hint": model.hint,
        "hf_repo": model.repo,
        "url": url,
        "etag": file.etag,
        "commit": file.commit,
        "date": now().isoformat(),
    }
    (path.parent / "source.json").write_text(json.dumps(source, indent=2), encoding="utf-8")
    # What is known of the old file, or of there being none, no longer holds.
    forget_file_tokenizers()
    estimator_of.cache_clear()
    checked = _check(model, root)
    return TokenizerFile(model.hint, "fetched", path) if checked.status == "ok" else checked
