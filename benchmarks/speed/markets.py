"""Large markets, and what one solve on them takes: `python -m benchmarks.speed.markets KIND COUNT`."""

from __future__ import annotations

import argparse
import datetime
import random
import resource
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.speed.timing import AS_OF, question_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from planner.scenario.offer import Offer

SEED = 20261122
GPUS = ("A100-40GB", "A100-80GB", "A10G", "A6000", "H100-80GB", "H200", "L4", "L40S", "RTX3090", "RTX4090", "T4")
"""GPUs of drawn offers."""
PRICES = (1.5, 1.9, 1.0, 0.6, 3.0, 3.8, 0.6, 1.1, 0.2, 0.4, 0.3)
"""Dollars per GPU and hour that their prices are spread around."""


def drawn(count: int) -> tuple[Offer, ...]:
    """Return offers of 20 providers drawn at random: GPU, number, nodes and prices; a provider has one set of terms."""
    from planner.scenario.offer import Offer

    chance = random.Random(SEED)

    def draw(number: int) -> Offer:
        kind, gpus, provider = chance.randrange(len(GPUS)), chance.choice((1, 1, 2, 4, 8, 8)), chance.randrange(20)
        price = PRICES[kind] * gpus * chance.uniform(0.6, 2.0)
        return Offer.model_validate(
            {
                **{"provider": f"provider-{provider}", "region": f"region-{number % 60}"},
                **{"instance": f"instance-{number}", "gpu": GPUS[kind], "gpus": gpus},
                **{"usd_per_hour": round(price, 4), "spot_usd_per_hour": round(price * chance.uniform(0.2, 0.8), 4)},
                "max_nodes": chance.choice((1, 1, 2, 4)) if gpus == 8 else 1,
                "billing": {"step_seconds": (1, 1, 60, 3600)[provider % 4]},
                "fees": {"egress_usd_per_gb": (None, 0.0, 0.09)[provider % 3]},
            }
        )

    return tuple(draw(number) for number in range(count))


def replicated(count: int) -> tuple[Offer, ...]:
    """Return the shipped machines by the hour in many regions, prices up to 10 % apart, each with a spot price."""
    chance = random.Random(SEED)
    shipped = [
        one
        for one in question_of("quickstart-any")[0].offers
        if one.usd_per_hour and not one.is_cpu and one.commitment is None
    ]

    def jittered(offer: Offer, copy: int) -> Offer:
        price = (offer.usd_per_hour or 0.0) * chance.uniform(0.9, 1.1)
        spot = (offer.spot_usd_per_hour or 0.5 * price) * chance.uniform(0.9, 1.1)
        prices = {"usd_per_hour": round(price, 5), "spot_usd_per_hour": round(min(spot, 0.95 * price), 5)}
        return offer.model_copy(update={**prices, "region": f"{offer.region}-{copy}"})

    copies = range(-(-count // len(shipped)))
    return tuple(jittered(offer, copy) for copy in copies for offer in shipped)[:count]


KINDS: dict[str, Callable[[int], tuple[Offer, ...]]] = {"drawn": drawn, "replicated": replicated}


def solve_cost(kind: str, count: int) -> tuple[float, float, str]:
    """Return CPU seconds of one solve, the most memory of this process in MB, and the plan in a line."""
    from planner.scenario.scenario import SolveOptions
    from planner.solving.solve import solve

    scenario, library = question_of("quickstart-any")
    scenario = scenario.model_copy(update={"offers": KINDS[kind](count)})
    options = SolveOptions(as_of=datetime.date.fromisoformat(AS_OF))
    started = cpu_seconds()
    plan = solve(scenario, options, library)
    seconds = cpu_seconds() - started
    jobs = "; ".join(f"{one.gpus} x {one.gpu} of {one.offer}" for one in plan.jobs)
    return seconds, peak_megabytes(), f"{plan.cost_usd}, {jobs}"


def peak_megabytes() -> float:
    """Return the most memory of this process so far; `ru_maxrss` would count that of the process that started it."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024 / 1e6
    raise OSError("the system does not report the peak of memory")


def cpu_seconds() -> float:
    """Return the CPU seconds of this process so far."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what one solve takes in this process, which should be a fresh one."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.speed.markets", description=__doc__)
    parser.add_argument("kind", choices=sorted(KINDS))
    parser.add_argument("count", type=int)
    wanted = parser.parse_args(arguments)
    seconds, megabytes, plan = solve_cost(wanted.kind, wanted.count)
    print(f"{wanted.count:,} offers, {wanted.kind}: {seconds:.2f} s CPU, {megabytes:,.0f} MB; {plan}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
