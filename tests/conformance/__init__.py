"""Conformance vectors: recorded inputs and outputs, one adapter a surface, one runner for all.

An adapter is a module `tests.conformance.adapters.<platform>.<surface>` with a function `run(case: Case) -> object`.
It translates the vector's input to our API and our result to the form of `expected`; it holds no behaviour.
"""
