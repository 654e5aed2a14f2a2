"""JavaScript regex and value semantics, language tags, JSON pointers, verbatim masking: independent of prompts."""
