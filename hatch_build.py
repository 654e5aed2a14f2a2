"""The project's description for package indexes: the README, with links that also lead somewhere on another site."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface


class Readme(MetadataHookInterface):
    """Reads the README and makes its links absolute."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the description."""
        source = metadata["urls"]["Source"]
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        text = re.sub(r"\]\((?!https?:|#)([^)]+)\)", rf"]({source}/blob/main/\1)", text)
        text = re.sub(r'((?:src|srcset)=")(?!https?:)', rf"\1{source}/raw/main/", text)
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
