"""vardi beside its peers, in one run on one machine: what ``make bench`` and ``python -m benchmarks`` run.

Beside the package, not in the wheel. Peers are optional (``pip install 'vardi[bench]'``): one that is not installed is
a line that says so.
"""
