"""How fast llm-analysis (0.2.2 on PyPI) computes memory and time of one training, where it is installed."""

from __future__ import annotations

import logging
from importlib.util import find_spec

from benchmarks.speed.timing import Times, best_times


def llm_analysis_times(count: int, repeat: int) -> Times | None:
    """Return the times of `count` calls for a 7B model on an A100; None where it is not installed."""
    if find_spec("llm_analysis") is None:
        return None
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)  # it logs every figure
    from llm_analysis.analysis import DSZeRO, LLMAnalysis
    from llm_analysis.config import DtypeConfig, GPUConfig, ModelConfig, ParallelismConfig

    model = ModelConfig("7b", num_layers=32, n_head=32, hidden_dim=4096, vocab_size=32000, max_seq_len=4096)
    gpu = GPUConfig("a100", 80, 2039, 300, 8e-6, 312)

    def trainings() -> None:
        for number in range(count):
            one = LLMAnalysis(model, gpu, DtypeConfig(), ParallelismConfig(dp_size=8), flops_efficiency=0.5)
            one.training(1 + number % 2, seq_len=2048, total_num_tokens=10**9, ds_zero=DSZeRO.STAGE_3)

    try:
        return best_times(trainings, repeat)
    finally:
        logging.disable(before)
