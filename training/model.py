"""A small model and its data, to be replaced by yours. Everything in it is a function of (seed, step, rank)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

FEATURES = 32
DATASET_SIZE = 5_000


def build(seed: int, hidden: int, device: torch.device) -> nn.Module:
    """The same first weights on every rank and in every run."""
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Linear(FEATURES, hidden),
        nn.LayerNorm(hidden),
        nn.GELU(),
        nn.Dropout(0.1),
        nn.Linear(hidden, hidden),
        nn.GELU(),
        nn.Linear(hidden, 1),
    ).to(device)


def load_samples(ids: list[int], seed: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Inputs and targets of the samples `ids`; a real job reads them from its data set instead."""
    rows = [torch.randn(FEATURES, generator=torch.Generator().manual_seed(seed * 1_000_003 + sample)) for sample in ids]
    inputs = torch.stack(rows)
    targets = torch.sin(inputs.sum(dim=1, keepdim=True)) + 0.1 * inputs[:, :1] ** 2
    return inputs.to(device), targets.to(device)
