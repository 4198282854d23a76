"""Settings of every test process.

Linear algebra keeps to one thread: several test processes that each take every core slow one another down many times.
"""

import os

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
