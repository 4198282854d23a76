"""Bugs in jobs of reinforcement learning: the step, the search over ways, the evaluation of one, its check."""

from benchmarks.mutations.catalogue.tests import (
    RL_BUDGET,
    RL_EDITED,
    RL_FRONTIER,
    RL_JUDGE,
    RL_LEAST,
    RL_REWARDS,
    RL_STEPS,
    RL_WEIGHTS,
)
from benchmarks.mutations.mutation import Area

AREA = Area()

AREA.of("planner/reinforcement/rl_step.py", RL_STEPS)
AREA.add("overlapped sides add up", "max(self.sampling, self.trainer) +", "self.sampling + self.trainer +")
AREA.add("engines on spot lose nothing", "(1.0 - np.minimum(start / up, MOST_LOST))", "1.0", RL_STEPS)
AREA.add("own scores are not waited for", "return self.rollout + self.own_reward", "return self.rollout", RL_REWARDS)
AREA.add("answers that are dropped are not scored", "return sampled / sequences * reward", "return reward", RL_REWARDS)
AREA.add("stale answers have no longest", "np.maximum(by_rate, by_longest)", "by_rate")

AREA.of("planner/reinforcement/rl_sides.py", RL_LEAST)
AREA.add("the reference takes no memory", "+ reference + critic", "+ critic")
AREA.add("a reward model takes no memory", "np.maximum(need + held, scoring)", "need", RL_REWARDS)
AREA.add(
    "the fastest pools alone are kept",
    "undominated_columns(values[:, order])",
    "undominated_columns(values[:1, order])",
    RL_FRONTIER,
)
AREA.add("a trainer may be too large", "better = possible & (need <= usable) &", "better = (need >= 0.0) &")

AREA.of("planner/reinforcement/rl_ways.py", RL_LEAST)
AREA.add("a start is free", "hours = (self.start_hours + run_hours) * factor", "hours = run_hours * factor")

AREA.of("planner/reinforcement/rl_limits.py", RL_LEAST, RL_BUDGET)
AREA.add("a budget allows anything", "limits.budget_usd, ways.late_usd,", "limits.budget_usd, 0.0 * ways.late_usd,")

AREA.of("planner/reinforcement/evaluated_rl.py", RL_LEAST, RL_WEIGHTS)
AREA.add("what is trained stays for nothing", "sent = 0.0 if is_rollout else self.result_gb", "sent = 0.0")
AREA.add("a judge is free", "if not isinstance(self.job.reward, Judge):", "if True:", RL_JUDGE)
AREA.add("hours are not rounded up", "round_up_hours(hours,", "round_up_hours(0.0 * hours,")

AREA.of("planner/reinforcement/audited_rl.py", RL_EDITED)
AREA.add(
    "an edited phase is not noticed",
    'violations = compare(run.name, "", own.model_copy(update=bare), run.model_copy(update=bare), tolerance)',
    "violations = []",
)
