"""`mcp`: the planner as tools of an agent, over standard input and output; it writes only where a call says."""

# Annotations are evaluated where they stand: the SDK reads those of tools, whose names are local to a function.

import datetime
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import click
from pydantic import BaseModel, ConfigDict, Field

from planner.errors import MissingExtraError, PlannerError

if TYPE_CHECKING:
    from mcp.server import MCPServer

    from planner.results.result_tables import Result
    from planner.scenario.scenario import Scenario

Found = TypeVar("Found")

INSTRUCTIONS = """\
Plans what GPUs to rent and how to train, fine-tune or run a language model: least cost within deadline, budget and
memory, proven. Ask the user for the model, the amount of data, the deadline and the budget; leave out what they do not
know. Read lines with "!" to the user: they change the decision. "by" is the time that holds with 90 %, "likely" the
expected one. `evidence` says what a figure rests on: measured, fitted to measurements, or a prior (a guess).
"""

TEXT_WIDTH = 100
"""Columns of the texts."""
MOST_OFFERS = 40


class PlanQuestion(BaseModel):
    """What is to be trained or run, by when, for how much: a scenario, or a model and its data."""

    model_config = ConfigDict(extra="forbid")

    scenario: Annotated[
        str | None,
        Field(description="A shipped scenario, the path of a scenario file, or its YAML text. Else give `model`."),
    ] = None
    model: Annotated[str | None, Field(description="A model, such as llama-3.1-8b, or the path of a config.json.")] = (
        None
    )
    tokens: Annotated[str | None, Field(description="Tokens to train on, such as 24M.")] = None
    samples: Annotated[str | None, Field(description="Samples, in place of tokens.")] = None
    tokens_per_sample: Annotated[str | None, Field(description="Their mean length.")] = None
    epochs: Annotated[str | None, Field(description="How often the data are read; once if left out.")] = None
    sequence_length: Annotated[str | None, Field(description="Tokens of a sequence; what a sample fits in.")] = None
    method: Annotated[Literal["lora", "qlora", "full"] | None, Field(description="The cheapest if left out.")] = None
    deadline: Annotated[str | None, Field(description="36h, 2d, or a day: '2026-12-01 09:00'.")] = None
    budget: Annotated[str | None, Field(description="Dollars for everything.")] = None
    gpus: Annotated[str | None, Field(description="Only these GPUs, such as H100,L40S.")] = None
    providers: Annotated[str | None, Field(description="Only these providers, such as runpod,lambda.")] = None
    max_gpus: Annotated[str | None, Field(description="GPUs at one time.")] = None
    objective: Annotated[Literal["cost", "time"] | None, Field(description="What is least; cost if left out.")] = None
    no_spot: Annotated[bool, Field(description="No machines that the provider may take away.")] = False
    settings: Annotated[
        list[str], Field(description="Changes as PATH=VALUE, such as limits.tiers.forbid=[community].")
    ] = []
    as_of: Annotated[datetime.date | None, Field(description="Day that the age of prices is counted from.")] = None


AskedPlan = Annotated[PlanQuestion, Field(description="What is planned.")]


def scenario_of_question(asked: PlanQuestion) -> "Scenario":
    """Return the scenario that is asked for; ScenarioError with every fault."""
    from planner.loading.question import load_question, python_question
    from planner.loading.scenario_file import load_scenario, parse_scenario

    options = asked.model_dump(exclude={"scenario", "settings", "as_of"}, exclude_none=True, exclude_defaults=True)
    if asked.scenario is None:
        return load_question(python_question(options), asked.settings).scenario
    if options:
        from planner.errors import Fault, ScenarioError

        fix = "leave them out, and say the same by `settings`"
        raise ScenarioError([Fault("question", 0, name, "is given next to a scenario", fix) for name in options])
    if "\n" in asked.scenario:
        return parse_scenario(asked.scenario, set_=asked.settings)
    return load_scenario(asked.scenario, asked.settings).scenario


def _options(asked: PlanQuestion) -> Any:
    from planner.scenario.scenario import SolveOptions

    return SolveOptions(as_of=asked.as_of)


# What each tool does, without the protocol: they raise what the library raises.


def solve(asked: PlanQuestion, save: str | None) -> "Result":
    """Return the plan of a question, written to a file where one is named."""
    from planner.documents.files import check_writable, write_text_atomically
    from planner.results.plan import plan_text
    from planner.solving.solve import solve as find_plan

    if save is not None:
        check_writable(save)
    plan = find_plan(scenario_of_question(asked), _options(asked))
    if save is not None:
        write_text_atomically(save, plan_text(plan))
    return plan


def frontier(asked: PlanQuestion) -> "Result":
    """Return the least dollars for every deadline."""
    from planner.analysis.frontier_question import frontier as find_frontier

    return find_frontier(scenario_of_question(asked), options=_options(asked))


def what_if(asked: PlanQuestion, changes: list[str]) -> "Result":
    """Return the plans before and after changes."""
    from planner.analysis.what_if_question import what_if as compare

    return compare(scenario_of_question(asked), changes, _options(asked))


def why_not(asked: PlanQuestion, alternative: str) -> "Result":
    """Return why the plan is not another one, and what it would take."""
    from planner.analysis.limit_sensitivity import explain

    return explain(scenario_of_question(asked), alternative, _options(asked))


def estimate(model: str, gpu: str, settings: dict[str, Any]) -> "Result":
    """Return memory and speed of one configuration."""
    from planner.analysis.estimate_question import estimate as estimate_one

    return estimate_one(model, gpu, **settings)


def prices(gpu: str | None, provider: str | None) -> tuple[str, dict[str, Any]]:
    """Return the cheapest offers as text and rows."""
    from planner.cli.functions import offers

    listed = offers(gpu=gpu, provider=provider)
    keys = ("offer", "provider", "gpu", "gpus", "usd_per_hour", "spot_usd_per_hour", "tier", "region", "date")
    priced = [row for row in listed if row.get("usd_per_hour") or row.get("spot_usd_per_hour")]
    rows = sorted(priced, key=lambda row: (row.get("usd_per_hour") or row["spot_usd_per_hour"]) / (row["gpus"] or 1))
    shown = [{key: row[key] for key in keys if row.get(key) is not None} for row in rows[:MOST_OFFERS]]
    head = f"{len(listed):,} offers; the {len(shown)} with the least dollars per GPU and hour"
    lines = [", ".join(f"{key} {value}" for key, value in row.items()) for row in shown]
    return "\n".join([head, *lines]), {"offers": shown, "count": len(listed), "evidence": "measured: listed prices"}


def document_of(result: "Result") -> dict[str, Any]:
    """Return a result as JSON, without the inputs that a saved plan repeats its question by."""
    document: dict[str, Any] = _without_inputs(result.model_dump(mode="json", by_alias=True))
    return document


def _without_inputs(data: Any) -> Any:
    if isinstance(data, dict):
        return {key: _without_inputs(value) for key, value in data.items() if key != "inputs"}
    return [_without_inputs(value) for value in data] if isinstance(data, list) else data


# The protocol.


SavedTo = Annotated[str | None, Field(description="File for the plan, which `planner export FILE --all` reads.")]
Changes = Annotated[list[str], Field(description="PATH=VALUE texts, such as jobs.0.deadline=12h.", min_length=1)]
Alternative = Annotated[str, Field(description="KEY=VALUE,..., such as gpu=H100 or provider=lambda,method=full.")]
ModelName = Annotated[str, Field(description="Name of a model, such as mistral-7b.")]
GpuName = Annotated[str, Field(description="A GPU with its number, such as 2xA100-80GB.")]
OwnTechniques = Annotated[
    dict[str, Any] | None,
    Field(description="Such as {'method': 'lora', 'weight_bits': 4, 'micro_batch': 4, 'sequence_length': 4096}."),
]
GpuFilter = Annotated[str | None, Field(description="Only this GPU.")]
ProviderFilter = Annotated[str | None, Field(description="Only this provider.")]


def make_server() -> "MCPServer":
    """Return the server with its tools; MissingExtraError without the package `mcp`."""
    try:
        from mcp.server import MCPServer
        from mcp.types import ToolAnnotations
    except ImportError as error:
        raise MissingExtraError("mcp is not installed: install the extra `mcp`: pip install '.[mcp]'") from error
    from planner import __version__

    server = MCPServer("planner", instructions=INSTRUCTIONS, version=__version__, log_level="WARNING")
    reads = ToolAnnotations(read_only_hint=True, open_world_hint=False)
    writes = ToolAnnotations(destructive_hint=False, open_world_hint=False)
    for tool in _tools():
        name = tool.__name__.removesuffix("_tool")
        server.add_tool(tool, name=name, annotations=writes if name == "solve" else reads)
    return server


def _tools() -> tuple[Callable[..., Any], ...]:
    """Return the tools, which the SDK describes by their signatures and docstrings."""
    from mcp.types import CallToolResult, TextContent

    async def told(work: Callable[[], Any]) -> CallToolResult:
        text, document = await _cancellable(lambda: _said(work()))
        return CallToolResult(content=[TextContent(type="text", text=text)], structured_content=document)

    async def solve_tool(question: AskedPlan, save_plan_to: SavedTo = None) -> CallToolResult:
        """Find the best plan: GPU, count, provider, method, dollars, time, with risks and other ways."""
        return await told(lambda: solve(question, save_plan_to))

    async def frontier_tool(question: AskedPlan) -> CallToolResult:
        """Draw cost against time: the least dollars for every deadline."""
        return await told(lambda: frontier(question))

    async def what_if_tool(question: AskedPlan, changes: Changes) -> CallToolResult:
        """Solve before and after changes, and say what each of them buys."""
        return await told(lambda: what_if(question, changes))

    async def why_not_tool(question: AskedPlan, alternative: Alternative) -> CallToolResult:
        """Say why the plan is not another one: what it would cost, or which limit excludes it and what admits it."""
        return await told(lambda: why_not(question, alternative))

    async def estimate_tool(model: ModelName, gpu: GpuName, settings: OwnTechniques = None) -> CallToolResult:
        """Estimate memory and speed of training with one configuration on one kind of GPU."""
        return await told(lambda: estimate(model, gpu, settings or {}))

    async def prices_tool(gpu: GpuFilter = None, provider: ProviderFilter = None) -> CallToolResult:
        """List what clouds rent, the cheapest per GPU and hour first."""
        return await told(lambda: prices(gpu, provider))

    return solve_tool, frontier_tool, what_if_tool, why_not_tool, estimate_tool, prices_tool


def _said(answer: Any) -> tuple[str, dict[str, Any]]:
    """Return the text and the JSON of what a tool found; prices are both already."""
    from planner.report.any_result import text

    return answer if isinstance(answer, tuple) else (text(answer, TEXT_WIDTH), document_of(answer))


async def _cancellable(work: Callable[[], Found]) -> Found:
    """Return what work returns, done in a thread that stops when the call is cancelled; its fault as a message."""
    import anyio.to_thread
    from mcp.server.mcpserver.exceptions import ToolError

    from planner.watch import watched

    ended = threading.Event()

    def guarded() -> Found:
        with watched(cancel=ended.is_set):
            return work()

    try:
        return await anyio.to_thread.run_sync(guarded, abandon_on_cancel=True)
    except PlannerError as error:
        raise ToolError(str(error)) from error
    finally:
        ended.set()


@click.command()
def mcp() -> None:
    """Serve the planner as tools for an agent over standard input and output.

    The Model Context Protocol; tools: solve, frontier, what_if, why_not,
    estimate, prices. An agent starts this command itself.

    Try: planner mcp
    """
    make_server().run("stdio")
