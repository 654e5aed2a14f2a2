"""Lua scripts of cards and modules, in a sandbox."""
