"""JavaScript's replace and sort, as RisuAI's texts and lists meet them."""
