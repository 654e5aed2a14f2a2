"""Counting tokens as RisuAI does, and making a prompt fit."""
