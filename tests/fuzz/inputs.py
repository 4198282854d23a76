"""Cases from seeds: shipped scenarios and inventories, plans, configs, logs, traces and options, each mutated."""

from __future__ import annotations

import gzip
import json
from functools import cache
from random import Random
from typing import Any

import yaml

from planner.documents.files import data_folder
from planner.documents.overrides import known_paths
from planner.scenario.scenario import scenario_schema
from tests.fuzz.mutations import COLLECTIONS, NUMBERS, TEXTS, Pools, mutate, pools_of, spoil, vary, write
from tests.fuzz.run import Case, run

AS_OF = ("--as-of", "2026-11-21")
SCENARIO, INVENTORY = "s.yaml", "inv.yaml"

_LLAMA = {
    "model_type": "llama", "num_hidden_layers": 4, "hidden_size": 512, "num_attention_heads": 8,
    "num_key_value_heads": 2, "intermediate_size": 1024, "vocab_size": 32000, "max_position_embeddings": 4096,
}  # fmt: skip
_GPT2 = {"model_type": "gpt2", "n_layer": 6, "n_embd": 768, "n_head": 12, "n_positions": 1024, "vocab_size": 50257}
_MPT = {"model_type": "mpt", "n_layers": 4, "d_model": 512, "n_heads": 8, "max_seq_len": 2048, "vocab_size": 50368}
CONFIGS: tuple[dict[str, Any], ...] = (
    _LLAMA,
    {**_LLAMA, "model_type": "qwen2", "sliding_window": 4096, "use_sliding_window": True, "max_window_layers": 2},
    {**_LLAMA, "model_type": "qwen3_moe", "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 256},
    {**_LLAMA, "model_type": "mixtral", "num_local_experts": 8, "num_experts_per_tok": 2, "sliding_window": None},
    {**_LLAMA, "model_type": "gemma2", "layer_types": ["sliding_attention", "full_attention"], "sliding_window": 1024},
    {"model_type": "gemma3", "text_config": {"model_type": "gemma3_text", "hidden_size": 640, "layer_types": []}},
    {**_LLAMA, "model_type": "falcon", "new_decoder_architecture": True, "num_kv_heads": 2, "ffn_hidden_size": 1024},
    {**_LLAMA, "model_type": "opt", "ffn_dim": 2048, "word_embed_proj_dim": 512},
    {"model_type": "bloom", "hidden_size": 512, "n_head": 8, "n_layer": 4, "vocab_size": 50368},
    {**_MPT, "expansion_ratio": 4},
    _GPT2,
)
_HISTORY = [{"step": n, "loss": 2.5, "num_input_tokens_seen": 4096 * n, "train_runtime": 2.0 * n} for n in range(1, 9)]
_END = {"step": 9, "train_runtime": 20.0, "train_steps_per_second": 0.45, "train_samples_per_second": 7.2}
STATES = (
    {"global_step": 9, "train_batch_size": 2, "log_history": [*_HISTORY, _END]},
    {"log_history": [{"step": 40, "loss": 1.0}, {**_END, "step": 40, "train_mem_gpu_peaked_delta": 9 * 2**30}]},
)
LOGS = (
    "step,seconds\n" + "".join(f"{n},{2 + n % 3}\n" for n in range(12)),
    "step,timestamp,tokens\n" + "".join(f"{n},2026-11-21T10:00:{n:02d},4096\n" for n in range(12)),
    "timestamp, memory.used [MiB]\n" + "".join(f"2026/11/21 10:00:0{n}.5, {9000 + n} MiB\n" for n in range(8)),
    "step,max_memory_allocated_gib\n1,20.5\n2,21\n",
    "".join(
        f"[titan] 2026-11-21 10:{n:02d}:00,5 - root - INFO - step: {5 * n}  loss: 3.2  memory: 9.4GiB(6%)  tps: 7\n"
        for n in range(1, 12)
    ),
    "".join(
        f" [2026-11-21 10:{n:02d}:00] iteration {n}/ 99 | elapsed time per iteration (ms): 6e4 |\n" for n in range(9)
    ),
    "".join(f"  1%|#| {n}/99 [00:{n:02d}<1:00, 1s/it]\r{{'loss': '1.2', 'epoch': '0.1'}}\n" for n in range(1, 12)),
)
_COUNTS = [int(n % 9 > 2) * 4 for n in range(120)]
TRACES = (
    "trace_id,step_s,availability_rle,target_nodes\na,300,"
    + ";".join("4x9;0x5" for _ in range(12))
    + ",4\nb,300,4x99,4\n",
    "time_seconds,available\n" + "".join(f"{600 * n},{count}\n" for n, count in enumerate(_COUNTS)),
)
TRACE_JSON = {"metadata": {"gap_seconds": 600}, "data": _COUNTS}


@cache
def shipped() -> tuple[tuple[dict[str, Any], ...], tuple[dict[str, Any], ...]]:
    """Return the plain data of every shipped scenario, and of every inventory."""
    folder = data_folder("scenarios")
    read = {path: yaml.safe_load(path.read_text(encoding="utf-8")) for path in sorted(folder.rglob("*.yaml"))}
    return tuple(one for one in read.values() if "jobs" in one), tuple(
        one for one in read.values() if "jobs" not in one
    )


@cache
def pools() -> Pools:
    """Return the values of each key in the shipped files."""
    return pools_of([*shipped()[0], *shipped()[1]])


@cache
def paths() -> tuple[str, ...]:
    """Return every path that a setting may name."""
    schema = scenario_schema()
    return tuple(known_paths(schema, {"jobs": [{"name": "0"}]}))


@cache
def plans() -> tuple[dict[str, Any], ...]:
    """Return plans of three scenarios."""
    names = ("quickstart", "spot-heavy", "bill-aws-adapter")
    return tuple(json.loads(run(Case(("solve", name, "--json", *AS_OF))).out) for name in names)


def warm_up() -> None:
    """Import what commands import late, so that a fork need not; starts no solver, whose threads a fork would lose."""
    import planner.solving.solve
    from planner.cli import main
    from planner.library.reading import read_library

    assert main and planner.solving.solve
    read_library([])
    shipped()
    paths()
    plans()


def make_case(seed: int) -> Case:
    """Return the case of a seed."""
    random = Random(seed)
    kinds = (_scenario, _scenario, _scenario, _inventory, _settings, _settings, _vary, _why_not)
    kinds += (_plan, _config, _config, _log, _log, _trace, _trace)
    case = random.choice(kinds)(random)
    if "--json" not in case.arguments and random.random() < 0.85:
        case = Case((*case.arguments, "--json"), case.files)
    return case


def _small_inventory(random: Random) -> dict[str, Any]:
    """Return a shipped inventory with few of its offers, so that a case is solved in a moment."""
    whole = random.choice(shipped()[1])
    offers = random.sample(whole["offers"], min(len(whole["offers"]), random.choice((3, 6, 12))))
    return {**whole, "offers": offers}


def _with_inventory(random: Random) -> tuple[dict[str, Any], dict[str, Any]]:
    scenario = dict(random.choice(shipped()[0]))
    inventory = _small_inventory(random)
    return {**scenario, "inventory": [INVENTORY]}, inventory


def _bytes(data: Any, random: Random, share: float = 0.25) -> bytes:
    """Return the file of data, a share of them with damaged text."""
    text = write(data)
    return spoil(text, random) if random.random() < share else text.encode("utf-8", "surrogatepass")


def _command(random: Random) -> tuple[str, ...]:
    """Return a command that takes a scenario."""
    setting = f"{random.choice(paths())}={random.choice(NUMBERS)}"
    return random.choice(
        (
            *[("solve", SCENARIO, *AS_OF)] * 5,
            ("solve", SCENARIO, "--time-limit", random.choice(NUMBERS[:12]), "--gap", random.choice(NUMBERS)),
            ("solve", SCENARIO, "--solver", random.choice(("cbc", "scip", "cp-sat")), *AS_OF),
            ("frontier", SCENARIO, "--points", "4", *AS_OF),
            ("explain", SCENARIO, *AS_OF),
            ("simulate", SCENARIO, "--runs", "20", *AS_OF),
            ("what-if", SCENARIO, "--set", setting, *AS_OF),
            ("offers", "list", "--inventory", SCENARIO),
        )
    )


def _scenario(random: Random) -> Case:
    scenario, inventory = _with_inventory(random)
    if random.random() < 0.5:
        scenario = {**vary(scenario, pools(), random), "inventory": [INVENTORY]}
        if random.random() < 0.5:
            inventory = vary(inventory, pools(), random)
        files = {SCENARIO: write(scenario).encode(), INVENTORY: write(inventory).encode()}
    else:
        files = {SCENARIO: _bytes(mutate(scenario, random), random), INVENTORY: write(inventory).encode()}
    return Case(_command(random), files)


def _inventory(random: Random) -> Case:
    scenario, inventory = _with_inventory(random)
    files = {SCENARIO: write(scenario).encode(), INVENTORY: _bytes(mutate(inventory, random), random)}
    command = _command(random) if random.random() < 0.7 else ("offers", "list", "--inventory", INVENTORY)
    return Case(command, files)


def _unchanged(random: Random) -> dict[str, bytes]:
    scenario, inventory = _with_inventory(random)
    return {SCENARIO: write(scenario).encode(), INVENTORY: write(inventory).encode()}


def _value(random: Random) -> str:
    return random.choice((*NUMBERS, *TEXTS, *(write(one).replace("\n", " ") for one in COLLECTIONS))).replace(
        "\x00", ""
    )


def _typed_path(random: Random) -> str:
    path = random.choice(paths())
    if random.random() < 0.15:
        path = spoil(path, random).decode("utf-8", "replace").replace("\x00", "")[:5000]
    return path


def _settings(random: Random) -> Case:
    def one() -> str:
        path = _typed_path(random)
        known = pools().get(path.rpartition(".")[2], [])
        plausible = known and random.random() < 0.5
        return f"{path}={write(random.choice(known)) if plausible else _value(random)}"

    settings = [("--set", one()) for _ in range(random.choice((1, 1, 2)))]
    command = _command(random)
    if "--inventory" in command:
        command = ("solve", SCENARIO, *AS_OF)
    return Case((*command, *(word for pair in settings for word in pair)), _unchanged(random))


def _vary(random: Random) -> Case:
    def one() -> str:
        kind = random.random()
        if kind < 0.5:
            unit = random.choice(("", "h", "x", "\x1b[2J"))
            return ":".join(f"{random.choice(NUMBERS)}{unit}" for _ in range(random.choice((3, 3, 3, 2))))
        if kind < 0.7:
            return random.choice(("6h:18h:6h", "1:3:1", "10:30:10", "0.5:1:0.25"))
        return f"[{', '.join(_value(random) for _ in range(3))}]"

    words = [word for _ in range(random.choice((1, 1, 2))) for word in ("--vary", f"{_typed_path(random)}={one()}")]
    if random.random() < 0.2:
        words = ["--tornado", "--by", random.choice(NUMBERS)]
    return Case(("what-if", SCENARIO, *words, *AS_OF), _unchanged(random))


def _why_not(random: Random) -> Case:
    keys = ("job", "gpu", "provider", "region", "instance", "offer", "gpus", "market", "method", "weight_bits", "x")
    values = (*NUMBERS, *TEXTS, "A100-80GB", "RTX4090", "aws", "vast", "spot", "on_demand", "full", "qlora", "4", "8")
    parts = [f"{random.choice(keys)}={random.choice(values)}" for _ in range(random.choice((1, 2, 3)))]
    text = ",".join(parts).replace("\x00", "")
    return Case(("explain", SCENARIO, "--why-not", text, *AS_OF), _unchanged(random))


def _plan(random: Random) -> Case:
    plan = random.choice(plans())
    files = {"plan.json": _bytes(mutate(plan, random), random)}
    name = plan["scenario"]
    return Case(
        random.choice((("check", "plan.json", name), ("simulate", name, "--plan", "plan.json", "--runs", "20"))), files
    )


def _config(random: Random) -> Case:
    files = {"config.json": _bytes(mutate(random.choice(CONFIGS), random, 2), random)}
    if random.random() < 0.5:
        return Case(("architectures", "show", "config.json"), files)
    if random.random() < 0.5:
        return Case(("estimate", "--architecture", "config.json", "--gpu", random.choice(("A10G", "H100"))), files)
    settings = ("--set", "jobs.0.architecture=config.json")
    return Case(("solve", SCENARIO, *settings, *AS_OF), {**_unchanged(random), **files})


def _log(random: Random) -> Case:
    if random.random() < 0.5:
        files = {"log": _bytes(mutate(random.choice(STATES), random), random)}
    else:
        files = {"log": spoil(random.choice(LOGS), random)}
    if random.random() < 0.4:
        plan = random.choice([one for one in plans() if len(one["jobs"]) == 1])
        given = (("--started", "2026-11-20 08:00 UTC"), ("--spent", random.choice(NUMBERS)), ())
        return Case(
            ("track", "plan.json", "log", *random.choice(given)), {**files, "plan.json": json.dumps(plan).encode()}
        )
    options = ("--tokens-per-step", random.choice((*NUMBERS, "4096", "4096", "4096")))
    if random.random() < 0.3:
        names = (
            "--micro-batch",
            "--global-batch",
            "--tensor-parallel",
            "--pipeline-parallel",
            "--gpus",
            "--network-gbps",
        )
        options += (random.choice(names), random.choice(NUMBERS))
    if random.random() < 0.2:
        return Case(
            ("calibrate", "log", "--gpu", "A100", "--scenario", SCENARIO, *options), {**files, **_unchanged(random)}
        )
    return Case(("calibrate", "log", "--gpu", "A100", *options), files)


def _trace(random: Random) -> Case:
    name = "trace.csv"  # named without its ending in faults of the trace as a whole, which have no line
    if random.random() < 0.5:
        content = _bytes(mutate(TRACE_JSON, random), random)
    else:
        content = spoil(random.choice(TRACES), random)
    if random.random() < 0.15:
        content = gzip.compress(content)[: random.choice((None, 40))]
    if random.random() < 0.3:
        command = ("simulate", SCENARIO, "--trace", name, "--runs", "20", *AS_OF)
        return Case(command, {**_unchanged(random), name: content})
    return Case(("market", "fit", name, "--instances", random.choice(("1", "2", "4"))), {name: content})
