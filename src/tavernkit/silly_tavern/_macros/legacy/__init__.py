"""The legacy engine and its passes."""
