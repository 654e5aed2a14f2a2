"""SillyTavern's own files: presets, settings, chats, templates, data folders."""
