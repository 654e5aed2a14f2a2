"""Counts tokens as RisuAI does, and makes prompts fit."""
