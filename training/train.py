"""A data-parallel PyTorch job that survives its nodes: put your model in place of `model.py`, keep lines (1) to (5).

Started by `launch.py` (see `train.sbatch`). Exit code 0: all steps done; 75: stopped, and a requeue goes on from there.
"""

from __future__ import annotations

import hashlib
import io
import os
import sys
import time
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import model as my_model
import torch
import torch.distributed as dist
from options import parse
from resumable import data
from resumable.attempt import Attempt
from resumable.checkpoint import Checkpoints, Found, Snapshot
from resumable.clock import MonotonicClock
from resumable.fence import FencedError
from resumable.progress import Step, StepLog, now_text, report_first_step, resumed_line, say
from resumable.rescue import save_alone, save_together
from resumable.signals import STOPPED, StopGuard
from resumable.storage import until_stored
from torch import Tensor

CLOCK = MonotonicClock()


def main() -> int:
    options = parse(__doc__ or "")
    guard = StopGuard(options.grace_seconds)
    guard.install()  # (1) before anything slow, so that no SIGTERM is lost
    on_gpu = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if on_gpu else torch.device("cpu")
    if on_gpu:
        torch.cuda.set_device(device)
    torch.set_num_threads(options.threads)
    torch.use_deterministic_algorithms(mode=True)
    try:
        with others_needed():
            dist.init_process_group(
                "nccl" if on_gpu else "gloo", timeout=timedelta(seconds=options.collective_timeout_seconds)
            )
        return Trainer(options, guard, device).run()
    except (PeerLostError, FencedError) as end:
        say(f"rank {os.environ['RANK']}: {end}")
        return STOPPED
    except OSError as error:
        say(f"rank {os.environ['RANK']}: {error}. The run folder must be on shared storage with free space")
        return 1


class PeerLostError(RuntimeError):
    """A collective ended because another rank is gone."""


@contextmanager
def others_needed() -> Iterator[None]:
    """Around collectives alone: an error in here is a peer's death, one outside is this script's own."""
    try:
        yield
    except RuntimeError as error:
        raise PeerLostError(f"a peer was lost ({str(error).splitlines()[0][:160]})") from error


class Trainer:
    def __init__(self, options: Namespace, guard: StopGuard, device: torch.device) -> None:
        self.options = options
        self.guard = guard
        self.device = device
        self.rank, self.world = dist.get_rank(), dist.get_world_size()
        self.attempt = Attempt.from_environment(os.environ)
        run_dir = Path(options.run_dir or Path.home() / "runs" / str(self.attempt.job))
        self.store = Checkpoints(run_dir, self.attempt, pace=self.pace)
        self.model = my_model.build(options.seed, options.hidden, device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3)
        self.step = 0
        self.history = ""
        self.ready = torch.cuda.Event() if device.type == "cuda" else None
        self.resumed_from = self.resume()
        self.log = StepLog(run_dir / "steps.jsonl") if self.rank == 0 else None

    def resume(self) -> int | None:
        """Fence older attempts off, agree on the newest whole checkpoint, load it. Its step; None: a fresh start."""
        found: Found | None = None
        if self.rank == 0:
            patience = CLOCK.now() + 0.8 * self.options.collective_timeout_seconds  # the others wait below
            # (2) from here on no older attempt can publish a checkpoint
            until_stored(self.store.fence.take, patience, CLOCK, f"attempt {self.attempt.number}")
            found = self.store.newest()
            start = found.snapshot.step if found else 0
            until_stored(lambda: self.store.fence.record_start(start), patience, CLOCK, "its start")
            for warning in self.store.warnings:
                say(f"warning: {warning}")
            say(resumed_line(self.attempt, found.attempt if found else None, found.snapshot.step if found else 0))
        shared = [found.snapshot if found else None]
        with others_needed():
            dist.broadcast_object_list(shared, src=0, device=self.device)
        snapshot = shared[0]
        if snapshot is None:
            return None
        state = torch.load(io.BytesIO(snapshot.payload), map_location=self.device, weights_only=True)
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.step, self.history = snapshot.step, snapshot.facts["history"]
        return snapshot.step

    def run(self) -> int:
        first_new_step = self.step + 1
        self.guard.training(self.rescue_unheard)
        while self.step < self.options.steps:
            started = CLOCK.now()
            batch = data.global_batch(self.options.seed, self.step + 1, self.options.batch_size, my_model.DATASET_SIZE)
            gradients, loss = self.backward(data.rank_batch(batch, self.rank, self.world))
            try:
                stop, mean_loss = self.exchange(gradients, loss)
            except PeerLostError as lost:
                self.guard.take_over()
                return self.rescue(str(lost))
            with self.guard.committing():  # (3) everything that changes the state
                self.optimizer.step()
                self.step += 1
                self.history = chain(self.history, self.step, mean_loss, data.batch_digest(batch))
                if self.ready is not None:
                    self.ready.record()
            self.note(mean_loss, data.batch_digest(batch), first_new_step)
            if stop:  # (4) every rank has seen it in the same step
                return self.stop_together()
            if self.step % self.options.checkpoint_every == 0 or self.step == self.options.steps:
                with self.guard.saving():
                    self.save_in_passing()
                if self.guard.stop_requested:
                    return self.stop_together()
            self.guard.wait(self.options.step_seconds - (CLOCK.now() - started))
        return self.finish()

    def backward(self, ids: list[int]) -> tuple[Tensor, Tensor]:
        """This rank's gradients as one flat tensor, and its loss. Reseeded: dropout is the same after a resume."""
        torch.manual_seed(data.step_seed(self.options.seed, self.step + 1, self.rank))
        inputs, targets = my_model.load_samples(ids, self.options.seed, self.device)
        self.optimizer.zero_grad(set_to_none=True)
        loss = torch.nn.functional.mse_loss(self.model(inputs), targets)
        loss.backward()
        flat = torch.cat(
            [parameter.grad.reshape(-1) for parameter in self.model.parameters() if parameter.grad is not None]
        )
        return flat, loss.detach()

    def exchange(self, gradients: Tensor, loss: Tensor) -> tuple[bool, float]:
        """Average gradients and loss over the ranks, and agree on stopping: one collective, sums always in one order.

        (DistributedDataParallel re-orders its buckets after the first step, which changes the last bit after a resume.)
        """
        flag = torch.tensor([float(self.guard.stop_requested)], device=self.device)
        together = torch.cat([gradients, loss.reshape(1), flag])
        with others_needed():
            dist.all_reduce(together)
            stop = together[-1].item() > 0  # waits for the device: a lost peer shows here, before the state changes
        together /= self.world
        mean_loss = together[-2].item()
        offset = 0
        for parameter in self.model.parameters():
            if parameter.grad is not None:
                size = parameter.grad.numel()
                parameter.grad.copy_(together[offset : offset + size].view_as(parameter.grad))
                offset += size
        return stop, mean_loss

    def note(self, loss: float, samples: str, first_new_step: int) -> None:
        if self.log is None:
            return
        self.log.append(Step(self.attempt.number, self.step, loss, samples, self.history, now_text()))
        if self.step == first_new_step:
            report_first_step(self.attempt, self.resumed_from, self.step)  # (5) Slurm and the platform see the resume
        if self.step == first_new_step or self.step % self.options.print_every == 0:
            say(f"step {self.step} loss {loss:.6f}")

    def snapshot(self) -> Snapshot:
        """The state after the last completed step. On a GPU by a stream apart: the usual one may wait for the dead."""
        aside = nullcontext()
        if self.ready is not None:
            stream = torch.cuda.Stream()
            stream.wait_event(self.ready)
            aside = torch.cuda.stream(stream)
        with aside:
            state = _to_cpu({"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()})
        buffer = io.BytesIO()
        torch.save(state, buffer)
        facts = {
            "history": self.history,
            "seed": self.options.seed,
            "samples_seen": self.step * self.options.batch_size,
        }
        return Snapshot(self.step, buffer.getvalue(), facts)

    def save_in_passing(self) -> None:
        """The periodic save. One that fails costs nothing yet: the one before it counts until the next."""
        try:
            self.store.write_shard(self.snapshot(), self.rank, self.world)
            if self.store.publish(self.step, self.world):
                self.store.prune(self.options.keep)
        except OSError as error:
            say(f"warning: rank {self.rank}: step {self.step} isn't saved ({error}); training goes on")

    def save_with_all(self) -> bool:
        """Whether the state is saved, by all ranks; storage that is full has until the end of the grace."""
        snapshot, give_up_at = self.snapshot(), self.guard.give_up_at
        save = partial(save_together, self.store, snapshot, self.rank, self.world, give_up_at, CLOCK)
        return until_stored(save, give_up_at, CLOCK, f"rank {self.rank}: step {self.step}")

    def stop_together(self) -> int:
        self.guard.take_over()
        if self.rank == 0:
            say(f"attempt {self.attempt.number}: SIGTERM, saving step {self.step} on all {self.world} ranks")
        started = CLOCK.now()
        try:
            self.tell_saved(self.save_with_all(), started)
        except OSError as error:
            self.tell_lost(error)
        return STOPPED

    def rescue_unheard(self) -> None:
        """What the guard's thread does when this loop hangs."""
        self.rescue("SIGTERM, but the other ranks don't answer")

    def rescue(self, reason: str) -> int:
        """Save the last completed step without the other ranks."""
        if self.step == (self.resumed_from or 0):
            say(f"attempt {self.attempt.number} rank {self.rank}: {reason}; no new step to save")
            return STOPPED
        say(f"attempt {self.attempt.number} rank {self.rank}: {reason}; saving step {self.step} alone")
        started = CLOCK.now()
        snapshot, give_up_at = self.snapshot(), self.guard.give_up_at
        try:
            save = partial(save_alone, self.store, snapshot, self.rank, give_up_at, CLOCK)
            self.tell_saved(until_stored(save, give_up_at, CLOCK, f"rank {self.rank}: step {self.step}"), started)
        except (FencedError, OSError) as error:
            self.tell_lost(error)
        return STOPPED

    def tell_lost(self, error: Exception) -> None:
        say(f"attempt {self.attempt.number} rank {self.rank}: step {self.step} isn't saved: {error}")

    def tell_saved(self, whole: bool, started: float) -> None:
        how = (
            f"saved in {CLOCK.now() - started:.1f} s"
            if whole
            else "NOT saved in time; the last periodic checkpoint counts"
        )
        say(f"attempt {self.attempt.number} rank {self.rank}: step {self.step} {how}")

    def finish(self) -> int:
        self.guard.take_over()
        if self.step > (self.resumed_from or 0) and not self.save_with_all():
            return STOPPED
        if self.rank == 0:
            say(f"attempt {self.attempt.number}: done, {self.step} steps, history {self.history}")
        with others_needed():
            dist.barrier()
        dist.destroy_process_group()
        return 0

    def pace(self, _written: int, _total: int) -> None:
        """Storage slowed down for tests: each save takes `--save-seconds`."""
        if self.options.save_seconds:
            time.sleep(self.options.save_seconds / 64)


def chain(history: str, step: int, loss: float, samples: str) -> str:
    """One value for all steps so far: equal only if every loss and every batch was, to the last bit."""
    return hashlib.sha256(f"{history}/{step}/{loss!r}/{samples}".encode()).hexdigest()[:16]


def _to_cpu(value: Any) -> Any:
    """A copy of nested state in main memory."""
    if isinstance(value, Tensor):
        return value.detach().to("cpu", copy=True)
    if isinstance(value, dict):
        return {key: _to_cpu(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_to_cpu(item) for item in value]
    return value


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # torch's own tidying up takes seconds, and with a dead peer it may hang
