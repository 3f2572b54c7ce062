"""vardi beside its peers, in one run on one machine: what ``make bench`` and ``python -m benchmarks`` run.

``python -m benchmarks turns --old PATH`` compares it with an older version of itself.

They are beside the package, not in the wheel. Peers are optional (``pip install 'vardi[bench]'``): the page lists those
that are not installed.
"""
