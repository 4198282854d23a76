"""Try many inputs: `python -m tests.fuzz --count 10000 --seed 1`; prints each defect with its seed."""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter

from tests.fuzz.inputs import make_case, warm_up
from tests.fuzz.run import complaints, run


def main() -> int:
    """Run the cases of a range of seeds; the exit status is 1 where one of them is answered badly."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1, help="the first of the seeds")
    parser.add_argument("--show", action="store_true", help="print input and answer of each case")
    given = parser.parse_args()
    warm_up()
    codes: Counter[int] = Counter()
    defects: Counter[str] = Counter()
    for seed in range(given.seed, given.seed + given.count):
        case = make_case(seed)
        found = run(case)
        codes[found.code] += 1
        if given.show:
            print(case, found, sep="\n")
        for wrong in complaints(case, found):
            kind = re.sub(r"(no \w+): [^:]*: ", r"\1: ", re.sub(r"'[^']*'|[\d.]+", "0", wrong))[:80]
            defects[kind] += 1
            if defects[kind] == 1:
                print(f"seed {seed} ({case.arguments[0]}): {wrong!r}", flush=True)
    print(f"{given.count} inputs, exit codes {dict(sorted(codes.items()))}, {len(defects)} kinds of defects")
    for kind, count in defects.most_common():
        print(f"{count:6} {kind!r}")
    return 1 if defects else 0


if __name__ == "__main__":
    sys.exit(main())
