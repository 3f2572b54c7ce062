"""Ten thousand random designs: the long version of tests/weights/test_oracle.py. `make slow` prints the table."""

from __future__ import annotations

import extended
import joblib
import pytest
from designs import FAMILIES
from judging import CERTIFIED, WRONG, judge_all, table

FIRST = 10_000  # seeds that tests/weights/test_oracle.py does not use
BATCH = 10
DESIGNS = dict.fromkeys(FAMILIES, 650) | {"many samples": 150, "large": 100}


@pytest.mark.skipif(not extended.HAS_64_BITS, reason="long doubles are doubles here: no oracle")
def test_ten_thousand_designs_are_certified_or_rightly_refused():
    assert sum(DESIGNS.values()) == 10_000
    batches = [
        joblib.delayed(judge_all)(family, range(FIRST + low, FIRST + min(low + BATCH, count)))
        for family, count in sorted(DESIGNS.items(), key=lambda item: item[1])  # those that take longest come first
        for low in range(0, count, BATCH)
    ]
    with joblib.parallel_config(backend="loky", n_jobs=-1, inner_max_num_threads=1):
        outcomes = [outcome for batch in joblib.Parallel()(batches) for outcome in batch]
    in_order = sorted(outcomes, key=lambda outcome: list(FAMILIES).index(outcome.family))
    print(f"\n{table(in_order)}")
    assert len(outcomes) == 10_000
    assert not [str(outcome) for outcome in outcomes if outcome.kind == WRONG]
    assert sum(outcome.kind == CERTIFIED for outcome in outcomes) > 6000
