"""``python -m tavernkit`` is the ``tavernkit`` command."""

from tavernkit.cli import main

if __name__ == "__main__":
    main()
