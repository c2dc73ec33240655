"""The data order as a function of (seed, step, rank): nothing to save, nothing to lose, the same after every resume.

The stream is epoch after epoch, each a permutation drawn from (seed, epoch). Step s takes the global batch number s - 1
of the stream; rank r of w takes every w-th sample of it. So the order also survives a change of the number of ranks.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from functools import lru_cache


@lru_cache(maxsize=2)
def epoch_order(seed: int, epoch: int, dataset_size: int) -> tuple[int, ...]:
    """The sample ids of one epoch, in their order."""
    order = list(range(dataset_size))
    random.Random(f"{seed}/{epoch}").shuffle(order)  # noqa: S311 - a shuffle, no secret
    return tuple(order)


def global_batch(seed: int, step: int, batch_size: int, dataset_size: int) -> list[int]:
    """The sample ids of step `step` (the first is 1) over all ranks."""
    if step < 1 or batch_size < 1 or dataset_size < 1:
        raise ValueError(
            f"no batch for step {step}, batch size {batch_size}, {dataset_size} samples: each must be 1 or more"
        )
    first = (step - 1) * batch_size
    return [
        epoch_order(seed, position // dataset_size, dataset_size)[position % dataset_size]
        for position in range(first, first + batch_size)
    ]


def rank_batch(batch: Sequence[int], rank: int, world_size: int) -> list[int]:
    """The part of a global batch that is rank `rank`'s."""
    if len(batch) % world_size:
        raise ValueError(f"{world_size} ranks can't share a global batch of {len(batch)} evenly: make it a multiple")
    return list(batch[rank::world_size])


def batch_digest(batch: Sequence[int]) -> str:
    """A short name for which samples a step used, in which order."""
    return hashlib.sha256(",".join(map(str, batch)).encode()).hexdigest()[:16]


def step_seed(seed: int, step: int, rank: int) -> int:
    """The seed of every random number that rank draws in step `step` (dropout, augmentation), 63 bits.

    Reseeding each step makes random state a function as well: a checkpoint written by one rank is enough for all.
    """
    return int.from_bytes(hashlib.sha256(f"{seed}/{step}/{rank}".encode()).digest()[:8], "big") >> 1
