"""RisuAI's own files: presets, modules and chats, plain and packed."""
