"""Seconds to import names, in a separate process: ``python -m benchmarks.import_probe MODULE[:NAME]...``."""

import sys
import time
from importlib import import_module

if __name__ == "__main__":
    wall, processor = time.perf_counter(), time.process_time()
    for wanted in sys.argv[1:]:
        module, _, name = wanted.partition(":")
        found = import_module(module)
        if name:
            getattr(found, name)
    wall, processor = time.perf_counter() - wall, time.process_time() - processor
    print(f'{{"wall": [{wall}], "processor": [{processor}]}}')
