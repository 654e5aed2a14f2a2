"""The routes: OpenAI's API and the REST API."""
