"""Structured directives: one request, one JSON envelope of text and directives."""
