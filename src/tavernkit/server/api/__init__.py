"""The routes: OpenAI's surface, and the REST API."""
