"""Character cards of every format, read and written, safely."""
