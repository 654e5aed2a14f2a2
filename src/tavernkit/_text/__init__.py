"""JavaScript regex and value semantics, language tags, JSON pointers, verbatim masking: knows nothing of prompts."""
