"""PyTorch's loops in the words of ``horovod.torch``: where a rank is, gradients that are averaged,
and ``elastic``, which is :mod:`rejoin.elastic`.

    import rejoin.torch as hvd

    hvd.init()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01 * hvd.size())
    optimizer = hvd.DistributedOptimizer(optimizer)

    @hvd.elastic.run
    def train(state):
        while state.step < 100:
            optimizer.zero_grad()
            F.cross_entropy(model(rows), labels).backward()
            optimizer.step()                            # by the gradients' mean over all ranks
            state.step += 1
            if state.step % 10 == 0:
                state.commit()

    train(hvd.elastic.State(model=model, optimizer=optimizer, step=0))

It needs PyTorch, on CPUs or GPUs; gradients are summed in main memory.
"""

from typing import Any, Dict, Iterable, List, Optional, Tuple

import numpy as np
import torch

from . import _current, elastic as elastic
from ._arguments import refused
from ._communicator import Communicator

__all__ = [
    "Compression",
    "DistributedOptimizer",
    "allreduce",
    "cross_rank",
    "cross_size",
    "init",
    "local_rank",
    "local_size",
    "rank",
    "size",
]

# How ranks' tensors are combined.
Average, Sum = "average", "sum"


class Compression:
    """As what gradients are sent and summed: as they are, or in half as many bytes."""

    none: "Optional[torch.dtype]" = None
    fp16: "Optional[torch.dtype]" = torch.float16
    bf16: "Optional[torch.dtype]" = torch.bfloat16


def init(terms: str = "") -> None:
    """Joins as the rank that ``rejoin run`` has started this process as; as :func:`rejoin.join`,
    once for the process. A function of :func:`rejoin.elastic.run` trains as that rank then."""
    _current.joined(terms)


def rank() -> int:
    """This rank, from 0; another one may be this process's after a resize. Raises ``BAD_STATE``
    where the process hasn't joined, as all of these do."""
    return _current.current().rank


def size() -> int:
    """The number of ranks; another one after a resize."""
    return _current.current().world


def local_rank() -> int:
    """Which of the ranks of its host this one is, from 0. Raises ``BAD_STATE`` when the training is
    over, as all of these do that are about hosts."""
    return _current.current().placement.local_rank


def local_size() -> int:
    """The number of ranks of this host."""
    return _current.current().placement.local_size


def cross_rank() -> int:
    """Which of the hosts with such a local rank this one is, from 0."""
    return _current.current().placement.cross_rank


def cross_size() -> int:
    """The number of hosts with such a local rank."""
    return _current.current().placement.cross_size


def allreduce(tensor: "torch.Tensor", op: str = Average) -> "torch.Tensor":
    """The mean (``Average``) or the ``Sum`` of all ranks' tensors, element by element: a new tensor
    of the same shape and type, where this one is. At all ranks at the same point; raises
    ``BAD_ARGUMENT`` for a mean of whole numbers, and as :meth:`rejoin.Communicator.allreduce`."""
    if _known(op) == Average and not tensor.is_floating_point():
        raise refused(f"the mean of {tensor.dtype} was asked for; expected op=Sum, or a type with fractions")
    flat = tensor.detach().cpu().contiguous().reshape(-1).clone()
    ranks = _current.current()
    _sum(ranks, flat)
    if op == Average:
        flat /= ranks.world
    return flat.reshape(tensor.shape).to(tensor.device)


def DistributedOptimizer(
    optimizer: "torch.optim.Optimizer",
    named_parameters: Optional[Iterable[Tuple[str, "torch.nn.Parameter"]]] = None,
    compression: "Optional[torch.dtype]" = Compression.none,
    *,
    op: str = Average,
    ranks: Optional[Communicator] = None,
) -> "torch.optim.Optimizer":
    """The same optimizer, whose ``step()`` works with the mean (``Average``) or the ``Sum`` of all
    ranks' gradients, in their place. All ranks have to call it as often.

    It is one allreduce for each type of elements, in the order of the parameters, so the sums don't
    depend on the order in which gradients were computed. A parameter that has no gradient at some
    ranks counts as zeros there; one that has none at any rank is left without. So a rank with fewer
    samples, or none, weighs by how its loss is scaled.

    ``named_parameters`` are for errors' texts. ``compression`` is one of :class:`Compression`.
    ``ranks`` is whose gradients they are, if it isn't this process's communicator of :func:`init`
    or :func:`rejoin.elastic.run`. Before ``step()`` gradients are this rank's: norms by which they
    are clipped are, too. ``GradScaler``, which leaves a rank's step out where its own gradients
    overflow, doesn't go together with it. The optimizer's ``state_dict`` and copies of it are as
    ever; it can't be pickled as a whole. Raises ``BAD_ARGUMENT`` for an optimizer that is distributed already or
    has a learning rate scheduler, which has to be made after; ``step`` does for a closure, for
    sparse gradients, and for elements other than float16, bfloat16, float32 and float64; and as
    :meth:`rejoin.Communicator.allreduce`, gradients being as they were then.
    """
    kind = type(optimizer)
    _known(op)
    if hasattr(kind, "_rejoin"):
        raise refused("the optimizer is distributed already; its gradients would be combined twice")
    if "step" in vars(optimizer):
        raise refused("the optimizer's step was replaced, as a scheduler does; make the scheduler after this call")
    names = {id(parameter): name for name, parameter in named_parameters or ()}

    def step(self: Any, closure: Any = None) -> Any:
        if closure is not None:
            raise refused("step() was given a closure; call it, with backward(), before step()")
        _combine(ranks or _current.current(), _trained(self), names, compression, op)
        return kind.step(self)

    # PyTorch wraps the steps of classes that don't say that they have been; this one's calls one that has.
    setattr(step, "hooked", True)
    optimizer.__class__ = type(kind.__name__, (kind,), {"step": step, "_rejoin": True, "__module__": kind.__module__})
    return optimizer


def _known(op: str) -> str:
    if op not in (Average, Sum):
        raise refused(f"op is {op!r}; expected rejoin.torch.Average or Sum")
    return op


def _trained(optimizer: Any) -> List[Any]:
    groups = optimizer.param_groups
    return [parameter for group in groups for parameter in group["params"] if parameter.requires_grad]


def _combine(ranks: Communicator, parameters: List[Any], names: Dict[int, str], sent_as: Any, op: str) -> None:
    """Gradients become those of all ranks. None is changed if a call fails."""
    by_type: Dict[Any, List[Any]] = {}
    for number, parameter in enumerate(parameters):
        name = names.get(id(parameter), f"number {number}")
        if parameter.dtype not in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
            raise refused(f"the parameter {name} is of {parameter.dtype}; expected float16, bfloat16, 32 or 64")
        if parameter.grad is not None and parameter.grad.layout != torch.strided:
            raise refused(f"the gradient of the parameter {name} is {parameter.grad.layout}; expected a dense one")
        by_type.setdefault(sent_as or parameter.dtype, []).append(parameter)
    with torch.no_grad():
        sums = [(these, *_summed(ranks, these, sent)) for sent, these in by_type.items()]
        for these, parts, counts in sums:
            for parameter, part, count in zip(these, parts, counts):
                if count == 0:
                    continue
                if parameter.grad is None:
                    parameter.grad = torch.empty_like(parameter)
                parameter.grad.copy_(part.view_as(parameter))
                if op == Average:
                    parameter.grad /= ranks.world


def _summed(ranks: Communicator, parameters: List[Any], sent_as: Any) -> Tuple[Any, List[float]]:
    """The sums of gradients, and how many ranks have each of them: more than 0 if any has."""
    sizes = [parameter.numel() for parameter in parameters]
    flat = torch.zeros(sum(sizes) + len(sizes), dtype=sent_as)
    parts = flat[: sum(sizes)].split(sizes)
    counts = flat[sum(sizes) :]
    for number, (parameter, part) in enumerate(zip(parameters, parts)):
        if parameter.grad is not None:
            part.copy_(parameter.grad.reshape(-1))
            counts[number] = 1
    _sum(ranks, flat)
    return parts, counts.tolist()


def _sum(ranks: Communicator, flat: Any) -> None:
    """In place, of a tensor in main memory."""
    if flat.dtype == torch.bfloat16:
        # numpy has no such type, and an array of the bits is in the same place.
        ranks.allreduce(flat.view(torch.int16).numpy().view(np.uint16), element="bfloat16")
    else:
        ranks.allreduce(flat.numpy())
