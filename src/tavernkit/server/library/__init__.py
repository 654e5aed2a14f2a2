"""Characters, presets, books and settings of the database, parsed."""
