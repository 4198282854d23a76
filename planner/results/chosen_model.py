"""The model, the tokens and the batch that a plan chose, and the frontier of loss against dollars."""

from typing import Literal

from pydantic import Field

from planner.results.plan_parts import Part, html_table
from planner.results.result_tables import Result, Table, TabledResult, flattened

LAST_DIGIT = 0.0005
"""Nats from which on the last digit of a loss that is shown changes."""
WASTED_TOKENS, REPEATED_DATA = "tokens are wasted", "passes over the same"
"""Words of the notes that a choice is beyond what the law has seen: steps too large, data repeated too often."""
OTHER_DATA = "losses of other data lie higher or lower"
"""Words of the note on what a loss costs where the level of the data differs."""
END_OF_SIZES = "the best model is the"
"""Words of the note that a choice is the largest or the smallest that is allowed."""


class LossRange(Part):
    """Loss in nats per token, with the range that laws and data sets leave."""

    value: float
    low: float
    high: float


class ModelOption(Part):
    """Another model at its own best, or as cheap as it gets."""

    architecture: str
    parameters: int
    tokens: int
    loss: float | None
    usd: float


class MoreMoney(Part):
    """What another half of the budget buys."""

    budget_usd: float
    architecture: str
    tokens: int
    loss: float


class BatchChoice(Part):
    """The batch of a plan, and what it costs in tokens against the smallest one of the range."""

    sequences: int
    tokens: int
    reference_sequences: int
    critical_tokens: float
    critical_tokens_low: float
    critical_tokens_high: float
    token_factor: float
    step_factor: float
    learning_rate_factor: float
    sigma: float


class ServingCost(Part):
    """What serving the trained model over its life costs; part of no bill, and of no budget."""

    tokens: int
    """Tokens that are read and written over the life of the model."""
    usd_per_million_tokens: float
    """Dollars of a million of them."""
    usd: float
    """Dollars of all of them."""
    source: str
    """Where the dollars of a token are from, and what they assume."""


class ModelChoice(Part):
    """What was left open and is decided: `tokens` are those of the run, at its batch."""

    architecture: str
    parameters: int
    law_parameters: int
    tokens: int
    tokens_at_reference: int
    loss: LossRange | None = None
    law: str | None = None
    unique_tokens: int | None = None
    as_good: tuple[ModelOption, ...] = ()
    more_money: MoreMoney | None = None
    batch: BatchChoice | None = None
    compared: int
    """Models times batches that were compared, each by solving it."""
    above_least: float | None = None
    """Next to other jobs: nats by which the sum of all losses may be above the least one; None for a job alone."""
    serving: ServingCost | None = Field(default=None, exclude_if=lambda cost: cost is None)
    """What serving the model costs, where that enters the choice of its size."""


class ModelSummary(Part):
    """The choice of a plan in short; without a plan only its status."""

    status: str
    architecture: str | None = None
    tokens: int | None = None
    loss: LossRange | None = None
    cost_usd: float | None = None


class LossCalibration(Result):
    """A law of loss fitted to runs of one's own, and with a scenario the choice without and with it."""

    schema_version: int = 3
    runs: int
    """Number of runs."""
    fitted: str
    """What of the law was fitted; its exponents never are."""
    off_before: float
    """Mean distance of the runs from the law that the fit starts from, in nats per token."""
    off_after: float
    """Mean distance from the fitted law."""
    loss_law: dict[str, float]
    """The entry `loss_law` of the job; `spread` are the nats by which a loss may be off."""
    scenario: str | None = None
    job: str | None = None
    before: ModelSummary | None = None
    """The choice with the law that the scenario has; `after` is that with the fitted one."""
    after: ModelSummary | None = None

    @property
    def block(self) -> str:
        """Return the entry as YAML, to paste into the job."""
        return "loss_law: {" + ", ".join(f"{key}: {value:g}" for key, value in self.loss_law.items()) + "}\n"


class LossPoint(Part):
    """The least loss that costs no more: `budget_usd` is what keeps it at the confidence of the budget."""

    budget_usd: float
    loss: float
    architecture: str
    parameters: int
    tokens: int
    hours: float
    plan: str


class LossFrontier(TabledResult):
    """Loss against dollars, cheapest first; no point is both cheaper and better than another."""

    schema_version: int = 3
    scenario: str
    status: Literal["optimal", "infeasible"]
    points: tuple[LossPoint, ...] = ()
    law: str
    compared: int
    solved: int
    seconds: float
    as_of: str
    notes: tuple[str, ...] = ()

    def table(self) -> Table:
        """Return a row per budget, cheapest first; `loss` is in nats per token."""
        return Table([flattened(point) for point in self.points], f"{self.scenario}: loss against dollars", str(self))

    def _repr_html_(self) -> str:
        """Return a table for notebooks: a row per point."""
        rows = [
            (f"${point.budget_usd:,.2f}", f"{point.loss:.3f}", point.architecture, f"{point.tokens:.3g}", point.plan)
            for point in self.points
        ]
        return html_table(f"{self.scenario}: {self.status}", ("dollars", "loss", "model", "tokens", "plan"), rows)
