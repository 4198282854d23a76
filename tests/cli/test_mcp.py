"""The tools for agents, as the official client of the protocol sees them: over standard input and output, and alone."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from planner.cli.mcp_command import PlanQuestion, make_server, prices, scenario_of_question
from planner.errors import ScenarioError

AS_OF = {"as_of": "2026-11-21"}
TOOLS = {"solve", "frontier", "what_if", "why_not", "estimate", "prices"}
QUESTION = {"model": "mistral-7b", "tokens": "24M", "deadline": "36h", "gpus": "H100,L40S", **AS_OF}

OWN = """\
jobs:
  - architecture: mistral-7b
    work: {tokens: 10M}
    deadline: 20h
offers:
  - {provider: desk, gpu: RTX4090, gpus: 1, usd_per_hour: 0.4}
"""


def test_a_question_of_options_is_the_scenario_of_the_command_line() -> None:
    """The words of the options, with settings on top."""
    asked = PlanQuestion.model_validate({**QUESTION, "settings": ["limits.budget_usd=9"]})
    scenario = scenario_of_question(asked)
    assert scenario.jobs[0].architecture == "mistral-7b" and scenario.jobs[0].deadline_hours == 36
    assert scenario.limits.budget_usd == 9 and {"H100-80GB", "L40S"} <= set(scenario.limits.gpus.allow or ())


def test_a_scenario_may_be_a_name_or_a_text() -> None:
    """A text has lines."""
    assert scenario_of_question(PlanQuestion(scenario="quickstart")).name == "quickstart"
    assert scenario_of_question(PlanQuestion(scenario=OWN)).jobs[0].deadline_hours == 20


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"scenario": "quickstart", "model": "mistral-7b"}, "model: is given next to a scenario"),
        ({"model": "mistral-7b"}, "tokens"),
        ({"model": "no-such-model", "tokens": "1M"}, "no-such-model"),
        ({"scenario": "jobs: []\n"}, "jobs"),
    ],
)
def test_what_is_wrong_is_said(asked: dict[str, Any], said: str) -> None:
    """With the place of the fault."""
    with pytest.raises(ScenarioError, match=said):
        scenario_of_question(PlanQuestion.model_validate(asked))


def test_prices_are_the_cheapest_first() -> None:
    """By dollars per GPU and hour."""
    text, document = prices("H100", None)
    each = [row.get("usd_per_hour", row.get("spot_usd_per_hour")) / row["gpus"] for row in document["offers"]]
    assert each == sorted(each) and document["count"] >= len(each) > 3
    assert text.splitlines()[1].startswith("offer ")


@asynccontextmanager
async def connected(over_pipes: bool) -> AsyncIterator[Any]:
    """A client of the SDK, in this process or to a process of its own."""
    from mcp import Client
    from mcp.client.stdio import StdioServerParameters

    server = StdioServerParameters(command=sys.executable, args=["-m", "planner", "mcp"]) if over_pipes else None
    async with Client(server or make_server()) as client:
        yield client


def session(over_pipes: bool, use: Callable[[Any], Awaitable[None]]) -> None:
    """Run a session with a client."""
    import anyio

    async def run() -> None:
        async with connected(over_pipes) as client:
            await use(client)

    anyio.run(run)


@pytest.mark.ecosystem
def test_a_session_over_pipes_lists_the_tools_and_plans(tmp_path: Path) -> None:
    """Every tool has a typed input; a plan is its answer as text and its JSON, and lies where it was asked for."""
    kept = tmp_path / "plan.json"

    async def use(client: Any) -> None:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert set(tools) == TOOLS
        assert "question" in tools["solve"].input_schema["properties"] and tools["solve"].description
        found = await client.call_tool("solve", {"question": QUESTION, "save_plan_to": str(kept)})
        assert not found.is_error
        first = found.content[0].text.splitlines()[0]
        job = found.structured_content["jobs"][0]
        assert job["gpu"] in first and f"${job['cost_usd']:,.2f}" in first
        assert job["evidence"]["speed"] in ("measured", "fitted", "prior") and "inputs" not in found.structured_content

    session(True, use)
    assert json.loads(kept.read_text())["jobs"] and list(tmp_path.iterdir()) == [kept]


@pytest.mark.ecosystem
def test_every_tool_answers_and_wrong_input_is_a_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A message that names what would be right, none with a traceback, and the server goes on."""
    monkeypatch.chdir(tmp_path)
    own = {"scenario": OWN, **AS_OF}
    calls: list[tuple[str, dict[str, Any], str]] = [
        ("frontier", {"question": own}, "RTX4090"),
        ("what_if", {"question": own, "changes": ["jobs.0.deadline=9h"]}, "deadline"),
        ("why_not", {"question": own, "alternative": "method=full"}, "full"),
        ("estimate", {"model": "mistral-7b", "gpu": "A10G", "settings": {"weight_bits": 4}}, "fits"),
        ("prices", {"provider": "lambda"}, "lambda"),
    ]
    wrong: list[tuple[str, dict[str, Any], str]] = [
        ("solve", {"question": {"model": "mistral-7b"}}, "tokens"),
        ("solve", {"question": {"modle": "mistral-7b"}}, "modle"),
        ("estimate", {"model": "mistral-7b", "gpu": "H1000"}, "H100"),
        ("what_if", {"question": own, "changes": ["deadline=9h"]}, "deadline"),
    ]

    async def use(client: Any) -> None:
        for number, (name, given, said) in enumerate([*calls, *wrong]):
            found = await client.call_tool(name, given)
            assert found.is_error is (number >= len(calls)), f"{name}: {found.content}"
            assert said in found.content[0].text and "Traceback" not in found.content[0].text

    session(False, use)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.ecosystem
def test_a_call_that_is_cancelled_stops_and_two_at_once_are_answered() -> None:
    """The thread of the first ends; the answers of the others are their own."""
    import anyio

    async def use(client: Any) -> None:
        with anyio.move_on_after(0.3) as scope:
            await client.call_tool("frontier", {"question": {"scenario": "seven-b-billion-tokens", **AS_OF}})
        assert scope.cancelled_caught
        costs: dict[str, float] = {}

        async def ask(gpu: str) -> None:
            found = await client.call_tool("solve", {"question": {**QUESTION, "gpus": gpu}})
            costs[found.structured_content["jobs"][0]["gpu"]] = found.structured_content["jobs"][0]["cost_usd"]

        async with anyio.create_task_group() as group:
            group.start_soon(ask, "H100")
            group.start_soon(ask, "L40S")
        assert len(costs) == 2 and "L40S" in costs

    session(True, use)
