"""
The kernels of a training step, and whether the GPU waits for the CPU that launches them, with and
without a CUDA graph of the LSTM layers.
"""

import json
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from benchmarks.gpu.precision import PRECISIONS, precise_to
from benchmarks.gpu.speed import N_WINDOWS, one_line, start_memory, turns
from benchmarks.gpu.step import Sizes, TrainingStep
from benchmarks.gpu.text import InventedText
from benchmarks.measure import Record
from elmo_plugin.modules import BiLSTM
from elmo_plugin.options import BiLMOptions

N_KERNELS = 12
"""Number of kernels in the table."""
RUNNING = {"cuda": {"kernel", "gpu_memcpy", "gpu_memset"}, "cpu": {"cpu_op"}}
"""Categories, in PyTorch's traces, of the events that say what a device computes."""
LAUNCHING = {"cuda_runtime", "cuda_driver"}
"""Categories of the calls of CUDA, some of which launch a kernel or a graph of kernels."""


def run(
    name: str,
    options: BiLMOptions,
    sizes: Sizes,
    device: torch.device,
    quick: bool,
    with_graph: bool,
) -> Iterator[Record]:
    """Yield the records of both tables, whose key `table` names theirs."""
    windows = InventedText(sizes.words, options.char_cnn.max_characters_per_token).windows(
        sizes.rows, sizes.steps, N_WINDOWS
    )
    for precision in PRECISIONS[1:]:
        with precise_to(precision):
            start_memory(device)
            key = {"model": name, "rows": sizes.rows, "precision": precision.name}
            of_graph = {"table": "launches", **key, "cuda_graph": "yes" if with_graph else "no"}
            step = TrainingStep(options, sizes, precision, device, windows)
            if with_graph:
                try:
                    capture(step.bilm.bilstm, sizes, device)
                    step()
                except Exception as error:  # whatever it is, the row says so
                    yield {**of_graph, **NO_GRAPH, "reason": one_line(error)}
                    return
            [time] = turns(quick, step)
            events = trace(step, device)
            running = [event for event in events if event["cat"] in RUNNING[device.type]]
            calls = [event["name"] for event in events if event["cat"] in LAUNCHING]
            launches = sum("Launch" in call for call in calls)
            yield {**of_graph, "ms": 1e3 * time, "launches": launches, **activity(running, time)}
            if not with_graph:
                for record in largest(running):
                    yield {"table": "kernels", **key, **record}
            del step


NO_GRAPH = dict.fromkeys(("ms", "launches", "kernels", "busy_ms", "share_idle"))


def capture(bilstm: BiLSTM, sizes: Sizes, device: torch.device) -> None:
    """Replace the layers' `forward` in training by CUDA graphs of it and of its gradient."""
    if not torch.cuda.is_available():
        raise RuntimeError("expected a GPU, found none")
    state = bilstm.zero_state(sizes.rows)
    shape = 2, sizes.steps, sizes.rows, bilstm.projection_dim
    arguments = tuple(
        (torch.randn(shape, device=device, requires_grad=True), cell, hidden)
        for cell, hidden in zip(state.cell.clone(), state.hidden.clone())
    )
    torch.cuda.make_graphed_callables(tuple(bilstm.layers), arguments)
    for layer in bilstm.layers:
        layer.forward = partial(_without_sizes, layer.forward)  # type: ignore[method-assign]


def _without_sizes(graphed: Callable[..., Any], *arguments: Tensor | None) -> Any:
    """A graph takes no `batch_sizes`, which are `None` in training."""
    return graphed(*arguments[:3])


def trace(work: Callable[[], object], device: torch.device) -> list[Mapping[str, Any]]:
    """The events with a duration in one run of `work`."""
    activities = [ProfilerActivity.CPU]
    if device.type == "cuda":
        activities.append(ProfilerActivity.CUDA)
    with profile(activities=activities) as profiler:
        work()
        if device.type == "cuda":
            torch.cuda.synchronize()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(path))
        events = json.loads(path.read_text(errors="replace"))["traceEvents"]
    return [event for event in events if "cat" in event and "dur" in event]


def activity(events: Iterable[Mapping[str, Any]], seconds: float) -> Record:
    """
    The number of kernels and the time with at least one running, in a step that takes `seconds`
    without the profiler. Times in a trace are in microseconds.
    """
    spans = sorted((event["ts"], event["ts"] + event["dur"]) for event in events)
    busy, until = 0.0, float("-inf")
    for begin, end in spans:
        busy += max(0.0, end - max(begin, until))
        until = max(until, end)
    return {
        "kernels": len(spans),
        "busy_ms": busy / 1e3,
        "share_idle": max(0.0, 1 - busy / 1e6 / seconds),
        "reason": None,
    }


def largest(events: Iterable[Mapping[str, Any]]) -> list[Record]:
    """The kernels that take the most time, by name."""
    times: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    for event in events:
        times[event["name"]] += event["dur"]
        counts[event["name"]] += 1
    total = sum(times.values()) or 1
    return [
        {"kernel": name[:90], "times": counts[name], "ms": time / 1e3, "share": time / total}
        for name, time in times.most_common(N_KERNELS)
    ]
