"""Evaluates models: scenarios over a matrix of models, settings and strategies, against any endpoint."""
