"""Data of LitGPT without padding: samples are joined and cut to rows of one length; what is left over is dropped."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from litgpt.data import JSON


class Rows(torch.utils.data.Dataset):
    """Rows of `length` tokens from the samples of a data set, in an order that `seed` decides."""

    def __init__(self, samples: Any, length: int, seed: int) -> None:
        """Join the samples; ValueError where they fill no row."""
        order = torch.randperm(len(samples), generator=torch.Generator().manual_seed(seed)).tolist()
        found = [samples[index] for index in order]
        self.length = length
        self.ids = torch.cat([one["input_ids"] for one in found])
        self.labels = torch.cat([one["labels"] for one in found])
        if len(self) == 0:
            raise ValueError(f"{len(self.ids)} tokens fill no row of {length}")

    def __len__(self) -> int:
        """Return the number of full rows."""
        return len(self.ids) // self.length

    def __getitem__(self, index: int) -> dict[str, Any]:
        """Return a row as LitGPT wants a sample."""
        if not 0 <= index < len(self):
            raise IndexError(index)
        part = slice(index * self.length, (index + 1) * self.length)
        counts = {"raw": self.length, "raw_plus_prompt_template": self.length}
        return {"input_ids": self.ids[part], "labels": self.labels[part], "token_counts": counts}


@dataclass
class PackedJSON(JSON):
    """The JSON data of LitGPT, whose training part is packed."""

    def setup(self, stage: str = "") -> None:
        """Read and tokenise the samples as LitGPT does, then pack those to train on."""
        super().setup(stage)
        self.train_dataset = Rows(self.train_dataset, self.max_seq_length, self.seed)
