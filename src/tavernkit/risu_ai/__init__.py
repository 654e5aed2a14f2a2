"""Parity with RisuAI 2026.1.90."""
