"""The benchmark of vision-language models: rows are found by their script, and the others are counted by reason."""

import csv
from pathlib import Path

from benchmarks.vision import EXAMPLES, judge, text_of

ROW = {
    "id": "a",
    "source": "examples/train/multimodal/caption.sh",
    "kind": "vision-language SFT",
    "model": "Qwen2.5-VL-7B",
    "framework": "ms-swift transformers",
    "method": "lora",
    "lora_rank": "8",
    "gpu": "not stated (80 GB class)",
    "gpus": "1",
    "micro_batch": "1",
    "activation_checkpointing": "full",
    "peak_gpu_gib": "22",
    "step_s": "",
    "notes": "",
}


def test_rows_are_predicted_by_their_script_and_the_others_counted_by_reason(tmp_path: Path) -> None:
    rows = [ROW, {**ROW, "id": "b", "kind": "reranker", "model": "Qwen3-VL-8B"}, {**ROW, "source": "elsewhere"}]
    rows += [{**ROW, "kind": "diffusion LoRA", "model": "FLUX"}]
    table = tmp_path / "table.csv"
    with table.open("w", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(ROW))
        writer.writeheader()
        writer.writerows(rows)
    judged, refused = judge(table, EXAMPLES, tmp_path)
    assert [one.row["id"] for one in judged] == ["a"]
    assert [why for _, why in refused] == ["a loss of a reranker", "its script is not known"]
    found = judged[0]
    assert found.seconds is None
    assert found.gib == found.estimate.vram_gib.reserved + found.estimate.vram_gib.set_aside["encoders"]
    assert "not predicted: 2 of 3" in text_of(judged, refused)
