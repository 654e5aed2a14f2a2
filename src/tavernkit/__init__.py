"""TavernKit: the same files in, the same prompt out, byte for byte, with an explanation of every piece."""
