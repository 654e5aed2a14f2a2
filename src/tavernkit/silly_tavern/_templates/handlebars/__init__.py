"""Handlebars, as far as story strings can use it."""
