"""A deterministic pass over assistant text: tags stripped, dropped, renamed, and made valid."""
