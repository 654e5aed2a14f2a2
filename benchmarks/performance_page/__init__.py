"""``make performance``: measure everything that ``docs/performance.md`` gives numbers of, and write its tables.

``sections`` lists what is measured, ``results`` keeps the numbers in ``benchmarks/results/performance.json``, and
``tables`` makes Markdown of them, which ``page`` puts between the markers of the page.
"""
