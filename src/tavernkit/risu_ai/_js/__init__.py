"""JavaScript's replace and sort, for RisuAI's texts and lists."""
