"""What a PyTorch module keeps beside its parameters, which each rank computes from its own samples."""

from typing import Any, Iterable, List

import numpy as np

from ._communicator import Communicator


def share(ranks: Communicator, values: Iterable[Any]) -> None:
    """The buffers of those values that are modules, as far as they are in its state, become rank 0's, by one broadcast;
    without buffers nothing happens. At all ranks at the same point."""
    buffers = [buffer for value in values if hasattr(value, "named_buffers") for buffer in _kept(value)]
    if not buffers:
        return
    import torch

    flat = [buffer.detach().cpu().contiguous().reshape(-1).view(torch.uint8) for buffer in buffers]
    content = np.concatenate([each.numpy() for each in flat])
    ranks.broadcast(content)
    parts = torch.from_numpy(content).split([each.numel() for each in flat])
    with torch.no_grad():
        for buffer, part in zip(buffers, parts):
            # A copy begins where the elements' type wants it to.
            buffer.copy_(part.clone().view(buffer.dtype).reshape(buffer.shape))


def _kept(module: Any) -> List[Any]:
    """Others may be of another size at each rank, and aren't restored."""
    kept = module.state_dict(keep_vars=True)
    return [buffer for name, buffer in module.named_buffers() if name in kept and buffer.numel() > 0]
