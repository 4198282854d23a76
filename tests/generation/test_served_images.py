"""Image towers of served models: their weights, the largest image, and the images of a prompt."""

import json
from typing import Any

import pytest

import planner
from planner.errors import InputError
from planner.generation.engine_recipes import encoder_cache_bytes, image_flop, largest_image_bytes, served_model
from planner.library.engines import read_engines
from planner.library.reading import read_library
from planner.loading.scenario_file import parse_scenario
from planner.scenario.job_stages import PromptImages
from planner.solving.solve import solve
from tests.helpers.exported_plans import texts
from tests.helpers.generation import OFFER, OPTIONS, plan, scenario

CARD = read_library(["qwen3-vl-8b"]).architecture("qwen3-vl-8b")
PROMPT: dict[str, Any] = {"input": 200, "output": 100}


@pytest.mark.parametrize("form", ["bf16", "fp8"])
def test_a_tower_is_stored_in_16_bit_and_not_read_to_write_text(form: str) -> None:
    weights = read_engines().formats[form]
    whole, alone = (served_model(card, weights) for card in (CARD, CARD.model_copy(update={"tower_parameters": 0})))
    more = (whole.stored_weights - alone.stored_weights) * weights.bytes
    assert more == pytest.approx(2 * CARD.tower_parameters)
    assert (whole.dense_weights, whole.met_weights) == (alone.dense_weights, alone.met_weights)


def test_an_engine_tries_the_largest_image_at_its_start() -> None:
    """16,777,216 pixels are 65,536 patches of 16: each 4 * 1,152 + 2 * 4,304 values of 2 bytes."""
    assert largest_image_bytes(CARD, 1) == 65_536 * (4 * 1152 + 2 * 4304) * 2
    assert largest_image_bytes(CARD.model_copy(update={"tower": None}), 1) == 0
    made = planner.estimate_inference("qwen3-vl-8b", "L40S", **PROMPT)
    assert made.memory_gib.parts["activations"] * 2**30 >= largest_image_bytes(CARD, 1)


def test_images_of_a_prompt_are_tokens_and_seconds() -> None:
    """880 tokens each; the pass of the tower comes on top of what as many tokens of text take."""
    images = planner.estimate_inference(
        "qwen3-vl-8b", "L40S", image_size="1280x720", images_per_sample=2, concurrency=1, **PROMPT
    )
    text = planner.estimate_inference("qwen3-vl-8b", "L40S", input=200 + 2 * 880, output=100, concurrency=1)
    assert images.input_tokens == text.input_tokens == 1960
    assert 0.02 < images.ttft_seconds.expected - text.ttft_seconds.expected < 0.2
    assert "2 x 1280x720 in a prompt are 1,760 tokens" in " ".join(images.notes)


def test_images_of_a_model_that_reads_none_are_refused() -> None:
    with pytest.raises(InputError, match="no image tower"):
        planner.estimate_inference("qwen3-8b", "L40S", image_size=448, **PROMPT)
    with pytest.raises(InputError, match="cuts no tiles"):
        planner.estimate_inference("qwen3-vl-8b", "L40S", image_size=448, max_tiles=3, **PROMPT)


def test_what_the_tower_made_waits_while_the_language_model_is_tried() -> None:
    """16,384 tokens of the largest image, each with four vectors of 4,096 values in 16 bit."""
    assert CARD.tower
    assert encoder_cache_bytes(CARD.hidden, CARD.tower, 8192) == 16_384 * 4 * 4096 * 2
    assert encoder_cache_bytes(CARD.hidden, CARD.tower, 32_768) == 32_768 * 4 * 4096 * 2


IMAGES: dict[str, Any] = {"size": "1280x720", "count": 2}
WORK: dict[str, Any] = {"requests": 2000, "input_tokens": 200, "output_tokens": 100}


def test_prompts_of_a_job_have_the_tokens_of_their_images() -> None:
    """Two of 880 tokens next to 200 of text; a mean of 1.5 counts as 1,320."""
    job = scenario({**WORK, "image_input": IMAGES}, architecture="qwen3-vl-8b").jobs[0]
    assert [one.input_tokens for one in job.work.classes] == [200 + 2 * 880]
    assert PromptImages(size="1280x720", count=1.5).tokens_of(CARD.tower) == 1320
    other = planner.change_scenario(scenario({**WORK, "image_input": IMAGES}, architecture="qwen3-vl-8b"),
                                    {"jobs.j.work.image_input.count": 1})  # fmt: skip
    assert other.jobs[0].work.classes[0].input_tokens == 200 + 880


def test_the_tower_of_a_job_takes_its_time_and_its_plan_is_audited() -> None:
    """The audit computes every figure again; the text alone, of as many tokens, is answered earlier."""
    seen = plan(work={**WORK, "image_input": IMAGES}, architecture="qwen3-vl-8b")
    text = plan(work={**WORK, "input_tokens": 1960}, architecture="qwen3-vl-8b")
    assert seen.jobs[0].inference and text.jobs[0].inference
    assert seen.jobs[0].inference.input_tokens == text.jobs[0].inference.input_tokens == 1960
    slow, fast = (one.jobs[0].inference.output_tokens_per_second for one in (seen, text))
    assert slow < 0.95 * fast
    assert any("2 x 1280x720 in a prompt are 1,760 tokens" in note for note in seen.jobs[0].notes)
    assert image_flop(CARD, PromptImages(**IMAGES)) == pytest.approx(2 * (2.9e12 + 1.5e12), rel=0.02)


def test_an_engine_is_given_the_number_of_images_in_a_prompt() -> None:
    images = {**IMAGES, "max_pixels": 602_112}
    made = plan(work={**WORK, "image_input": images}, architecture="qwen3-vl-8b")
    serve = json.loads(texts(made)["generate.json"])["serve"]
    assert '--limit-mm-per-prompt={"image": 2}' in serve
    assert '--mm-processor-kwargs={"max_pixels": 602112}' in serve


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"architecture": "qwen3-8b"}, "no image tower"),
        ({"architecture": ["qwen3-vl-8b", "qwen3-vl-4b"]}, "other tokens in each model"),
        ({"architecture": "gemma-3-4b", "work": {"image_input": {**IMAGES, "max_pixels": 1000}}}, "limits no pixels"),
        ({"architecture": "qwen3-vl-8b", "work": {"image_input": {"size": "wide"}}}, "no size of an image"),
    ],
)
def test_images_of_prompts_that_have_no_tokens_are_refused(changes: dict[str, Any], said: str) -> None:
    work = {**WORK, "image_input": IMAGES, **changes.pop("work", {})}
    with pytest.raises(InputError, match=said):
        scenario(work, **changes)


def test_images_are_refused_for_engines_whose_towers_are_not_modelled() -> None:
    with pytest.raises(InputError, match="images of prompts are not modelled for TensorRT-LLM"):
        plan(
            work={**WORK, "image_input": IMAGES}, architecture="qwen3-vl-8b",
            techniques={"engine": "trt-llm", "weight_bits": 16},
        )  # fmt: skip


def test_an_estimate_refuses_images_for_engines_whose_towers_are_not_modelled() -> None:
    with pytest.raises(InputError, match=r"images of prompts are not modelled for llama\.cpp; choose vllm or sglang"):
        planner.estimate_inference("qwen3-vl-8b", "H100", engine="llama.cpp", image_size="1280x720")


def test_a_service_answers_fewer_requests_with_images_than_with_as_many_tokens_of_text() -> None:
    load: dict[str, Any] = {"per_second": 2, "output_tokens": 100}
    techniques = {"engine": "vllm", "weight_bits": 16}
    job = {"name": "j", "kind": "serve", "architecture": "qwen3-vl-8b", "techniques": techniques}
    made = []
    for prompts in ({"input_tokens": 1960}, {"input_tokens": 200, "image_input": IMAGES}):
        data = {"schema": 2, "name": "s", "jobs": [{**job, "load": {**load, **prompts}}], "offers": [OFFER]}
        made.append(solve(parse_scenario(json.dumps(data)), OPTIONS).services[0])
    text, seen = made
    assert text.input_tokens == seen.input_tokens == 1960
    assert seen.fleet.kinds[0].capacity < 0.95 * text.fleet.kinds[0].capacity
    assert "2 x 1280x720 in a prompt are 1,760 tokens" in " ".join(seen.notes)
