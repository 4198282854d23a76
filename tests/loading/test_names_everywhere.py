"""Every key of the schema that takes a name: other spellings, groups, and what is refused with the nearest names."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from click.testing import CliRunner

import planner
from planner.cli import main
from planner.documents.files import data_folder, parse_value, read_text
from planner.documents.overrides import override
from planner.documents.validation import fold
from planner.errors import PlannerError, ScenarioError
from planner.library.names import countries_in, country_of, is_known_provider, provider_name
from planner.loading.scenario_file import change_scenario, parse_scenario
from planner.scenario.limits import AllowForbid, Limits
from planner.scenario.naming import OfferedNames
from planner.scenario.offer import Adjust, Match, Offer
from planner.scenario.scenario import scenario_data, scenario_schema
from tests.helpers.scenarios import json_text

TRAINING: dict[str, Any] = {"name": "a", "architecture": "mistral-7b", "work": {"tokens": 10_000_000}}
GENERATION = {
    **{"name": "g", "kind": "inference", "architecture": "mistral-7b"},
    "work": {"requests": 1000, "input_tokens": 100, "output_tokens": 100},
}
SERVICE = {
    **{"name": "s", "kind": "serve", "architecture": "mistral-7b"},
    "load": {"per_second": 1, "input_tokens": 100, "output_tokens": 100},
}
ROLLOUTS = {
    **{"name": "r", "kind": "rl", "architecture": "mistral-7b"},
    "work": {"steps": 10, "input_tokens": 100, "output_tokens": 100},
}
DISTILLED = {
    **{"name": "d", "method": "distill", "architecture": "mistral-7b"},
    "work": {"samples": 100, "tokens_per_sample": 500},
}
CHOICE = {"name": "c", "kind": "pretrain", "architecture": "gpt2", "work": {"tokens": "best"}}
OFFERS: list[dict[str, Any]] = [
    {"provider": "runpod-secure", "region": "eu-west-1", "gpu": "H100-80GB", "gpus": 1, "usd_per_hour": 2.0},
    {"provider": "runpod-community", "region": "europe-west4", "gpu": "H100-PCIe-80GB", "gpus": 1, "usd_per_hour": 1.5},
    {"provider": "aws", "region": "us-east-1", "instance": "g5.xlarge", "gpu": "A10G", "gpus": 1, "usd_per_hour": 1.0},
    {"provider": "vast", "region": "DE", "gpu": "RTX4090", "gpus": 1, "usd_per_hour": 0.4},
]
MANAGED = {"provider": "m", "managed": {"architectures": "mistral-7b", "usd_per_run": 30}}

RIGHT: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    # key of the schema: the job, and word -> what it means
    "jobs.*.architecture": (TRAINING, {"Mistral 7B": "mistral-7b", "LLAMA_3.1_8b": "llama-3.1-8b"}),
    "jobs.*.architecture.*": (CHOICE, {"GPT2": "gpt2"}),
    "jobs.*.architecture.family": (CHOICE, {"LLaMA": "llama"}),
    "jobs.*.teacher": (DISTILLED, {"Mixtral 8x7B": "mixtral-8x7b"}),
    "jobs.*.reward.model": (ROLLOUTS, {"Mistral 7B": "mistral-7b"}),
    "jobs.*.framework.*": (TRAINING, {"LitGPT": "litgpt", "TorchTitan": "torchtitan", "Megatron-LM": "megatron"}),
    "jobs.*.techniques.engine.*": (GENERATION, {"vLLM": "vllm", "TensorRT LLM": "trt-llm"}),
    "jobs.*.techniques.weight_format.*": (GENERATION, {"AWQ": "awq", "GGUF_Q4_K_M": "gguf-q4_k_m"}),
    "jobs.*.measured.*.gpu": (TRAINING, {"h100": "H100-80GB", "a10g": "A10G"}),
    "jobs.*.measured.*.rollout_gpu": (ROLLOUTS, {"h100": "H100-80GB", "a10g": "A10G"}),
    "jobs.*.measured.*.framework": (TRAINING, {"Unsloth": "unsloth"}),
    "jobs.*.measured.*.engine": (GENERATION, {"VLLM": "vllm"}),
    "jobs.*.measured.*.weight_format": (GENERATION, {"Awq": "awq"}),
    "jobs.*.stages.transfer.region": (TRAINING, {"US-EAST-1": "us-east-1", "eu-south-1": "eu-south-1"}),
    "jobs.*.load.profile": (SERVICE, {"Office": "office"}),
    "jobs.*.storage_gb_per_second": (TRAINING, {"GP3": 0.131}),
    "limits.gpus": (
        TRAINING,
        {"H100": ("H100-80GB", "H100-PCIe-80GB"), "4090": ("RTX4090",), "rtx 4090": ("RTX4090",)},
    ),
    "limits.providers": (TRAINING, {"RunPod": ("runpod-secure", "runpod-community"), "Amazon": ("aws",)}),
    "limits.regions": (
        TRAINING,
        {"Europe": ("eu-west-1", "europe-west4", "DE"), "germany": ("DE",), "US": ("us-east-1",)},
    ),
    "limits.tiers": (TRAINING, {"Secure": ("secure",)}),
    "limits.tools": (TRAINING, {"Axolotl": ("axolotl",), "Sky_Pilot": ("skypilot",)}),
    "limits.quota": (TRAINING, {"AWS": "aws"}),
    "adjust.*.match.gpu": (TRAINING, {"a10g": "A10G", "H100": ("H100-80GB", "H100-NVL-94GB", "H100-PCIe-80GB")}),
    "adjust.*.match.provider": (TRAINING, {"AWS": "aws", "runpod": ("runpod-secure", "runpod-community")}),
    "adjust.*.match.region": (TRAINING, {"us_east_1": "us-east-1"}),
    "adjust.*.match.instance": (TRAINING, {"G5.XLARGE": "g5.xlarge"}),
    "offers.*.gpu": (TRAINING, {"a10g": "A10G", "2080 Ti": "RTX2080Ti"}),
    "offers.*.managed.architectures.*": (TRAINING, {"Mistral-7B": "mistral-7b"}),
}
LISTS = ("gpus", "providers", "regions", "tiers")
NEVER_UNKNOWN = {"jobs.*.stages.transfer.region": "data may lie where no offer is"}
NO_NAME = {
    *("schema", "name", "description", "now", "inventory.*", "vary.*", "jobs.*.name", "jobs.*.after.*.job"),
    *(
        "offers.*.buy.without",
        "offers.*.notes",
        "offers.*.source",
        "offers.*.provider",
        "offers.*.region",
        "offers.*.instance",
    ),
    *("offers.*.spot.zones.*.zone", "offers.*.zones", "jobs.*.lora.targets.*", "jobs.*.techniques.lora.targets.*"),
    *("jobs.*.adapter.targets.*", "jobs.*.lora.targets", "jobs.*.techniques.lora.targets", "jobs.*.adapter.targets"),
}
"""Texts that are no name of something known here: what the user calls things, free text, layers of a model."""
QUANTITIES = (
    *(
        "samples",
        "tokens",
        "steps",
        "images",
        "size",
        "max_pixels",
        "requests",
        "count",
        "unique_tokens",
        "serve_tokens",
        "from",
        "to",
        "every",
        "at",
        "date",
    ),
    *("deadline", "release", "due", "lag", "start_slack", "retention", "for", "cold_start", "ttft", "tpot", "start"),
    *("end", "max_price_age", "disk_gb_per_second", "global_batch", "sequence_length", "tokens_per_sample"),
    *("input_tokens", "output_tokens", "longest_output", "prefix_tokens", "in_flight"),
)
"""Keys whose text is a number with a unit, or a day."""


def _leaves(node: Any, schema: dict[str, Any], path: tuple[str, ...], seen: frozenset[str]) -> dict[str, bool]:
    """Every key that takes a text -> whether the schema lists all that it may be."""
    if not isinstance(node, dict):
        return {}
    if "$ref" in node:
        name = node["$ref"].rsplit("/", 1)[-1]
        return {} if name in seen else _leaves(schema["$defs"][name], schema, path, seen | {name})
    found: dict[str, bool] = {}
    if "enum" in node or "const" in node or node.get("type") == "string":
        found[".".join(path)] = "enum" in node or "const" in node
    inside = [(branch, path) for key in ("anyOf", "oneOf", "allOf") for branch in node.get(key, ())]
    inside += [(one, (*path, key)) for key, one in node.get("properties", {}).items()]
    inside += [(one, (*path, "*")) for one in (node.get("items"), *node.get("prefixItems", ())) if one]
    if isinstance(node.get("additionalProperties"), dict):
        found[".".join(path)] = "propertyNames" in node  # the keys of a mapping are texts too
    for one, there in inside:
        for key, is_listed in _leaves(one, schema, there, seen).items():
            found[key] = found.get(key, True) and is_listed
    return found


def test_every_key_of_the_schema_that_takes_a_text_is_known_here() -> None:
    """A new key is a name, which the tests below try, or is said to be none."""
    schema = scenario_schema()
    open_keys = {key for key, is_listed in _leaves(schema, schema, (), frozenset()).items() if not is_listed}
    tried = {one.removesuffix(".*") for one in RIGHT} | set(RIGHT)
    tried |= {f"limits.{one}.{way}{end}" for one in LISTS for way in ("allow", "forbid") for end in ("", ".*")}
    told = tried | NO_NAME | {f"{one}.*" for one in tried} | {one.removesuffix(".*") for one in NO_NAME}
    left = {key for key in open_keys - told if key.removesuffix(".*").rpartition(".")[2] not in QUANTITIES}
    assert not left, left


def _scenario(key: str, word: Any) -> dict[str, Any]:
    """The small scenario with a word at a key."""
    job = json.loads(json.dumps(RIGHT[key][0]))
    offers: list[dict[str, Any]] = [dict(one) for one in OFFERS]
    data: dict[str, Any] = {"name": "x", "jobs": [job], "offers": offers}
    if job["work"] == {"tokens": "best"} if "work" in job else False:
        data |= {"objective": "loss", "limits": {"budget_usd": 50}}
    parts = key.removesuffix(".*").split(".")
    at, last = data, parts[-1]
    if parts[-1] == "family":
        job["architecture"] = {"family": word, "parameters": {"from": 1e8, "to": 4e9}}
    elif key == "limits.quota":
        data["limits"] = {"quota": {word: 8}}
    elif parts[:2] == ["adjust", "*"]:
        data["adjust"] = [{"match": {last: word}, "usd_per_hour_factor": 2}]
    elif "measured" in parts:
        run = {"gpus": 1, "tokens_per_second": 500.0}
        if job is not None and job.get("kind") == "inference":
            run = {"gpus": 1, "in_flight": 8, "input_tokens": 100, "output_tokens": 100}
            run |= {"output_tokens_per_second": 500.0, "engine": "vllm", "weight_format": "bf16"}
        if job.get("kind") == "rl":
            run = {"gpus": 1, "rollout_gpus": 1, "step_seconds": 100.0}
        job["measured"] = [{"gpu": "H100-80GB", **run, last: word}]
    elif "managed" in parts:
        offers.append({**MANAGED, "managed": {**MANAGED["managed"], "architectures": word}})
    elif parts[0] == "offers":
        offers[2] = {**offers[2], last: word}
    elif parts[0] == "jobs":
        at = job
        for part in parts[2:-1]:
            at = at.setdefault(part, {})
        at[last] = word
    else:
        data["limits"] = {last: word}
    return data


def _value(scenario: Any, key: str) -> Any:
    """What a scenario has at a key."""
    data = scenario.model_dump(mode="python", by_alias=True)
    parts = key.split(".")
    if key == "limits.quota":
        return next(iter(data["limits"]["quota"]))
    if parts[0] == "limits":
        return data["limits"]["tools"] if key == "limits.tools" else data["limits"][parts[1]]["allow"]
    at: Any = data
    for part in parts:
        if part == "*" and isinstance(at, (list, tuple)):
            at = at[2] if key == "offers.*.gpu" else at[-1]
        elif part != "*":
            at = at[part]
    return at


WORDS = [(key, word, meant) for key, (_, words) in RIGHT.items() for word, meant in words.items()]


@pytest.mark.parametrize(("key", "word", "meant"), WORDS, ids=[f"{key}={word}" for key, word, _ in WORDS])
def test_another_spelling_and_a_group_are_what_they_mean(key: str, word: str, meant: Any) -> None:
    """In a file, in a list, in a setting, in a scenario made in Python; and what it means is meant by itself too."""
    read = parse_scenario(json_text(_scenario(key, word)))
    found = _value(read, key)
    if key in ("limits.gpus",):
        assert set(found) >= set(meant)
    else:
        assert found == meant
    if not key.startswith(
        ("jobs.*.architecture", "jobs.*.teacher", "jobs.*.reward", "offers.*.managed")
    ):  # which a library of one's own may have
        assert _value(planner.Scenario(**_scenario(key, word)), key) == found
    again = change_scenario(read, [])
    assert _value(again, key) == found and scenario_data(again) == scenario_data(read)


@pytest.mark.parametrize("key", [one for one in RIGHT if one not in NEVER_UNKNOWN])
def test_an_unknown_name_is_refused_with_at_most_three_others(key: str) -> None:
    """One fault, at the key, with the nearest names and never all of them; also where a known name stands by it."""
    words: list[Any] = ["Zzqx9"]
    if key in ("limits.gpus", "limits.providers", "limits.regions", "limits.tiers") or key.endswith(".*"):
        known = next(iter(RIGHT[key][1]))
        words += [[known, "Zzqx9"], ["Zzqx9", known]]
    for word in words:
        with pytest.raises(ScenarioError) as caught:
            parse_scenario(json_text(_scenario(key, word)))
        (fault,) = caught.value.faults
        assert "Zzqx9" in fault.what + fault.where
        last = key.removesuffix(".*").rpartition(".")[2]
        assert last in fault.where
        said = fault.fix.partition("; ")[0].replace(" or ", ", ")
        assert 0 < len(said.split(", ")) <= 3 and len(fault.fix) < 200, fault.fix


@pytest.mark.slow
@pytest.mark.parametrize("key", [one for one in RIGHT if one != "limits.quota"])  # keys of a mapping are words
def test_what_is_no_word_is_a_fault_of_its_place(key: str) -> None:
    """Alone, in a list with a word, in `allow` and `forbid`: the fault of validation, and nothing else breaks."""
    word = next(iter(RIGHT[key][1]))
    for odd in ([], {}, [word], {"a": [word]}, None, 5):
        for value in (odd, [odd], [word, odd], {"allow": [word, odd], "forbid": [odd, word]}, {"allow": [[odd]]}):
            try:
                parse_scenario(json_text(_scenario(key, value)))
            except ScenarioError as error:
                assert error.faults and all(fault.what and fault.fix for fault in error.faults)
    if key.removeprefix("limits.") in LISTS:
        with pytest.raises(ScenarioError, match="a list is not text"):
            parse_scenario(json_text(_scenario(key, {"allow": [word, [word]]})))


def test_a_group_of_an_allowing_list_leaves_out_what_is_forbidden() -> None:
    """`allow: H100, forbid: H100-PCIe` are no contradiction; the same name in both is one."""
    data = _scenario("limits.gpus", {"allow": "H100", "forbid": "h100 pcie"})
    limits = parse_scenario(json_text(data)).limits
    assert "H100-80GB" in (limits.gpus.allow or ()) and "H100-PCIe-80GB" not in (limits.gpus.allow or ())
    data = _scenario("limits.providers", {"allow": ["AWS"], "forbid": ["amazon"]})
    with pytest.raises(ScenarioError, match="both allowed and forbidden"):
        parse_scenario(json_text(data))


def test_a_list_alone_is_what_is_allowed_in_a_setting_too() -> None:
    """`limits.gpus=[H100]` is `limits.gpus.allow=[H100]`."""
    base = json_text({"name": "x", "jobs": [TRAINING], "offers": OFFERS})
    short, long = (
        parse_scenario(base, set_=[f"limits.{key}=[H100]"]).limits.gpus.allow for key in ("gpus", "gpus.allow")
    )
    assert short == long and "H100-80GB" in (short or ())
    assert override({}, ["limits.gpus=[H100]"])[0] == {"limits": {"gpus": ["H100"]}}


def test_a_quota_is_of_one_provider() -> None:
    """A group is refused with its members, and one provider under two names too."""
    for quota, what in (({"RunPod": 8}, "is 2 providers; name each"), ({"aws": 1, "AWS": 2}, "has a quota too")):
        data = {"name": "x", "jobs": [TRAINING], "offers": OFFERS, "limits": {"quota": quota}}
        with pytest.raises(ScenarioError, match=what):
            parse_scenario(json_text(data))


USUAL_NAMES = {
    **{"Lambda Labs": "lambda", "Lambda Cloud": "lambda", "Amazon Web Services": "aws", "Google Cloud": "gcp"},
    **{"Google Cloud Platform": "gcp", "Microsoft Azure": "azure", "Oracle Cloud": "oracle-cloud", "Vast.ai": "vast"},
    **{"Oracle Cloud Infrastructure": "oracle-cloud", "Digital Ocean": "digitalocean", "Jarvis Labs": "jarvis-labs"},
    **{"Crusoe Cloud": "crusoe-cloud", "OVH Cloud": "ovhcloud", "RunPod Secure Cloud": "runpod-secure"},
    **{"DataCrunch": "verda", "Core Weave": "coreweave", "RunPod Community": "runpod-community", "Nebius AI": "nebius"},
}


def test_providers_are_known_by_their_usual_names() -> None:
    """In limits, price rules and quotas of the shipped list."""
    names = OfferedNames(planner.read_scenario("quickstart").offers)
    assert {word: names.meant("provider", word) for word in USUAL_NAMES} == {
        word: (name,) for word, name in USUAL_NAMES.items()
    }
    text = json_text({"name": "x", "jobs": [TRAINING], "offers": [*OFFERS, {**OFFERS[0], "provider": "lambda"}]})
    for path in ("limits.providers", "limits.providers.allow", "limits.providers.forbid"):
        limits = parse_scenario(text, set_=[f"{path}=[Lambda Labs,RunPod]"]).limits.providers
        assert {*(limits.allow or ()), *limits.forbid} == {"lambda", "runpod-secure", "runpod-community"}


def test_every_shipped_provider_is_known_by_all_of_its_names() -> None:
    """Each has a full name; no name, written in any way, is that of two."""
    rows = parse_value(read_text(file := data_folder("models") / "machines" / "providers.yaml"), str(file))
    owners: dict[str, str] = {}
    for row in rows:
        for word in (row["name"], row["full"], *row["aliases"]):
            assert owners.setdefault(fold(word), row["name"]) == row["name"], word
            for written in (word, word.upper(), word.replace(" ", "-"), word.replace("-", "_"), f" {word} "):
                assert is_known_provider(written) and provider_name(written) == row["name"], written
    folder = data_folder("scenarios")
    texts = [
        read_text(file) for kind in ("inventory", "generation", "serving") for file in (folder / kind).glob("*.yaml")
    ]
    sellers = {name for text in texts for name in re.findall(r"^ *- \{provider: ([\w-]+)", text, re.MULTILINE)}
    invented = {"desk", "rack"} | {name for name in sellers if name.startswith("example")}
    assert len(sellers) > 20 and sellers - invented <= {*owners.values()}


def test_python_objects_are_resolved_like_files() -> None:
    """Limits, offers and adjustments that were validated before the scenario was made."""
    offers = tuple(Offer(**{**one, "gpu": "H100"}) if one["gpu"] == "H100-80GB" else Offer(**one) for one in OFFERS)
    limits = Limits(gpus=AllowForbid(forbid=("H100",)), quota={"AWS": 4})
    adjust = (Adjust(match=Match(gpu="h100"), usd_per_hour_factor=2.0),)
    made = planner.Scenario(jobs=[TRAINING], offers=offers, limits=limits, adjust=adjust)
    assert made.offers[0].gpu == "H100-80GB" and made.limits.quota == {"aws": 4}
    assert [offer.gpu for offer in made.offers if made.limits.permits(offer)] == ["A10G", "RTX4090"]
    prices = [offer.usd_per_hour for _, offer in made.labelled_offers()]
    assert prices == [4.0, 3.0, 1.0, 0.4]
    with pytest.raises(ScenarioError, match="unknown GPU 'H1000'"):
        planner.Scenario(jobs=[TRAINING], offers=offers, limits=Limits(gpus=AllowForbid(forbid=("H1000",))))
    unknown = planner.Scenario(jobs=[TRAINING], offers=[{**OFFERS[0], "gpu": "Zzqx9"}])
    with pytest.raises(PlannerError, match="no GPU 'Zzqx9'; the nearest are"):
        planner.solve(unknown)


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("gpu=Zzqx9", "the nearest are"),
        ("provider=Zzqx9", "the nearest are"),
        ("framework=Zzqx9", "the nearest are"),
        ("region=Zzqx9", "the nearest are"),
        ("gpu=H100,region=Europe", ""),
        ("gpu=h100,provider=RunPod", ""),
        ("region=us-EAST-1", ""),
        ("framework=HF", ""),
    ],
)
def test_a_query_of_why_not_asks_the_same_resolver(query: str, told: str, tmp_path: Any) -> None:
    """A group is every member; an unknown name ends with exit code 2 and the nearest three."""
    file = tmp_path / "s.yaml"
    file.write_text(json_text({"name": "x", "jobs": [{**TRAINING, "deadline": "30d"}], "offers": OFFERS}))
    result = CliRunner().invoke(main, ["explain", str(file), "--why-not", query])
    assert result.exit_code == (2 if told else 0), result.output
    assert told in result.output and "no offer of the inventory" not in result.output
    for line in result.stderr.splitlines() if told else ():
        assert line.count(",") <= 4, line


def test_areas_name_the_regions_in_them() -> None:
    """The European Union is not Europe, and a country is one of its continent."""
    regions = ["eu-west-1", "eu-west-2", "NORWAY-1", "us-east-1", "DE", "US-Texas", "any", "DE-Berlin", "de"]
    names = OfferedNames([{"provider": "p", "region": one} for one in regions])
    assert names.meant("region", "europe") == ("eu-west-1", "eu-west-2", "NORWAY-1", "DE", "DE-Berlin")
    assert names.meant("region", "EU") == ("eu-west-1", "DE", "DE-Berlin")
    assert names.meant("region", "usa") == ("us-east-1", "US-Texas")
    assert names.meant("region", "us-east") == ("us-east-1",)
    assert names.meant("region", "asia") == ()
    assert country_of("eu-west-2") == "GB" and country_of("us-east-1/use1-az4") == "US" and country_of("zz") is None
    assert countries_in("EU") < countries_in("europe") and not countries_in("any")
