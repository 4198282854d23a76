"""One served configuration as a user asks for it: what `planner estimate --inference` takes."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from planner.documents.quantities import NotNegative, Text

MOST_TOKENS = 10**8
Tokens = Annotated[int, Field(ge=0, le=MOST_TOKENS)]
Count = Annotated[int, Field(ge=1, le=10**12)]


class InferenceRequest(BaseModel):
    """One served configuration as a user asks for it; None is chosen, and said."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    input: Tokens = 1024
    output: Annotated[int, Field(ge=1, le=MOST_TOKENS)] = 128
    prefix: Tokens = 0
    engine: Text = "vllm"
    weight_bits: int | None = None
    weight_format: Text | None = None
    kv_bits: int = 16
    gpus: Annotated[int, Field(ge=1, le=64)] = 1
    concurrency: Count | None = None
    requests: Count | None = None
    usd_per_gpu_hour: NotNegative | None = None
