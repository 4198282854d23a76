"""Bulk generation with an engine: the door of its replicas, their speed and memory, their files and their text.

Others import this package alone, and take names from it: `generation.usd_by_the_token`. A module is
loaded when a name of it is used for the first time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner import on_first_use

if TYPE_CHECKING:
    from planner.generation.engine_recipes import ALL_BITS as ALL_BITS
    from planner.generation.engine_recipes import ServingColumns as ServingColumns
    from planner.generation.engine_recipes import ServingRecipe as ServingRecipe
    from planner.generation.engine_recipes import coefficient_factors as coefficient_factors
    from planner.generation.engine_recipes import generation_faults as generation_faults
    from planner.generation.engine_recipes import request_faults as request_faults
    from planner.generation.engine_recipes import serving_recipe as serving_recipe
    from planner.generation.engine_recipes import serving_recipes as serving_recipes
    from planner.generation.engine_recipes import widest_values as widest_values
    from planner.generation.evaluated_replica import EvaluatedReplicas as EvaluatedReplicas
    from planner.generation.evaluated_replica import Replica as Replica
    from planner.generation.evaluated_replica import answering_seconds as answering_seconds
    from planner.generation.evaluated_replica import choices_of_replicas as choices_of_replicas
    from planner.generation.evaluated_replica import evaluate_replicas as evaluate_replicas
    from planner.generation.evaluated_replica import hours_on_machine as hours_on_machine
    from planner.generation.evaluated_replica import usd_by_the_token as usd_by_the_token
    from planner.generation.generation_estimate import ReplicaSetup as ReplicaSetup
    from planner.generation.generation_estimate import estimate_inference as estimate_inference
    from planner.generation.generation_estimate import least_usd_per_gpu_hour as least_usd_per_gpu_hour
    from planner.generation.generation_estimate import resolve_replica as resolve_replica
    from planner.generation.generation_settings import LONGER_ANSWERS as LONGER_ANSWERS
    from planner.generation.generation_settings import export_all_generation as export_all_generation
    from planner.generation.generation_settings import export_generation as export_generation
    from planner.generation.generation_settings import generation_checklist as generation_checklist
    from planner.generation.generation_text import HOSTS as HOSTS
    from planner.generation.generation_text import MOST_API_PRICES as MOST_API_PRICES
    from planner.generation.generation_text import api_lines as api_lines
    from planner.generation.generation_text import api_price_lines as api_price_lines
    from planner.generation.generation_text import engine_name as engine_name
    from planner.generation.generation_text import engine_words as engine_words
    from planner.generation.generation_text import flight_words as flight_words
    from planner.generation.generation_text import price_lines as price_lines
    from planner.generation.generation_text import render_inference as render_inference
    from planner.generation.generation_text import request_words as request_words
    from planner.generation.generation_text import serve_lines as serve_lines
    from planner.generation.generation_text import speed_lines as speed_lines
    from planner.generation.replica_enumeration import ROUGH_BATCHES as ROUGH_BATCHES
    from planner.generation.replica_enumeration import ReplicaSpeeds as ReplicaSpeeds
    from planner.generation.replica_enumeration import ServedGpu as ServedGpu
    from planner.generation.replica_enumeration import compute_replica_hours as compute_replica_hours
    from planner.generation.replica_enumeration import enumerate_replicas as enumerate_replicas
    from planner.generation.replica_enumeration import generating_on as generating_on
    from planner.generation.replica_enumeration import generation_hours as generation_hours
    from planner.generation.replica_enumeration import is_measured as is_measured
    from planner.generation.replica_enumeration import lengths_of as lengths_of
    from planner.generation.replica_enumeration import market_of as market_of
    from planner.generation.replica_enumeration import predicted_run as predicted_run
    from planner.generation.replica_enumeration import prior_parts as prior_parts
    from planner.generation.replica_enumeration import replica_speeds as replica_speeds
    from planner.generation.replica_enumeration import speed_sigma as speed_sigma

_NAMES_BY_MODULE = {
    "planner.generation.replica_enumeration": (
        "ROUGH_BATCHES",
        "ReplicaSpeeds",
        "ServedGpu",
        "compute_replica_hours",
        "enumerate_replicas",
        "generating_on",
        "generation_hours",
        "is_measured",
        "lengths_of",
        "market_of",
        "predicted_run",
        "prior_parts",
        "replica_speeds",
        "speed_sigma",
    ),
    "planner.generation.evaluated_replica": (
        "EvaluatedReplicas",
        "Replica",
        "answering_seconds",
        "choices_of_replicas",
        "evaluate_replicas",
        "hours_on_machine",
        "usd_by_the_token",
    ),
    "planner.generation.engine_recipes": (
        "ALL_BITS",
        "ServingColumns",
        "ServingRecipe",
        "coefficient_factors",
        "generation_faults",
        "request_faults",
        "serving_recipe",
        "widest_values",
        "serving_recipes",
    ),
    "planner.generation.generation_estimate": (
        *("ReplicaSetup", "estimate_inference", "least_usd_per_gpu_hour", "resolve_replica"),
    ),
    "planner.generation.generation_settings": (
        *("LONGER_ANSWERS", "export_all_generation", "export_generation", "generation_checklist"),
    ),
    "planner.generation.generation_text": (
        "HOSTS",
        "MOST_API_PRICES",
        "api_lines",
        "api_price_lines",
        "engine_name",
        "engine_words",
        "flight_words",
        "price_lines",
        "render_inference",
        "request_words",
        "serve_lines",
        "speed_lines",
    ),
}

__getattr__ = on_first_use(__name__, _NAMES_BY_MODULE)
