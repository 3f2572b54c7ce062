"""Clémençon and Laforgue's *Statistical Learning from Biased Training Samples*, reproduced by ``python -m paper``.

Each experiment is a function of a seed that returns the scores of one run (``boston`` and its neighbours), ``runs``
repeats it and keeps what is finished, ``comparison`` sets the means beside the printed cells, ``layout``, ``page`` and
``figures`` show them, and ``reproduction`` does it all. Of vardi it uses public names only.
"""
