"""PyTorch's tensors among the values of an elastic state: equal ones have equal bytes, and one that is trained stays
the object that an optimizer holds."""

import pickle
import sys
from typing import Any, Dict, List, Optional, Set, Tuple

from ._arguments import refused
from ._errors import Code, RejoinError


def is_tensor(value: Any) -> bool:
    torch = sys.modules.get("torch")  # which isn't imported here: a program that has a tensor has done it
    return torch is not None and isinstance(value, torch.Tensor)


def is_trained(value: Any) -> bool:
    """Whether it is one that an optimizer may hold, which knows it by its identity. (A parameter that is frozen now
    may be trained later.)"""
    if not is_tensor(value):
        return False
    return bool(value.is_leaf) and (value.requires_grad or isinstance(value, sys.modules["torch"].nn.Parameter))


def trained(value: Any) -> List[Any]:
    """Those in it, as far as :func:`restored` finds them."""
    found: List[Any] = []
    rest = [value] if "torch" in sys.modules else []
    seen = set()  # of containers: one may be in itself
    while rest:
        each = rest.pop()
        if isinstance(each, (dict, list, tuple)):
            if id(each) not in seen:
                seen.add(id(each))
                rest.extend(each.values() if isinstance(each, dict) else each)
        elif is_trained(each):
            found.append(each)
    return found


class Pickler(pickle.Pickler):
    """Equal values have equal bytes, which PyTorch's own way to pickle tensors doesn't give: it names storages by
    where they are in memory."""

    def __init__(self, into: Any, values: Any) -> None:
        super().__init__(into, protocol=4)
        # Without it the bytes say which parts are one object, which a rank that was restored may see otherwise.
        self.fast = True
        self._values = values
        self._reached: Optional[Set[int]] = None

    def _is_within_reach(self, value: Any) -> bool:
        if self._reached is None:
            # Not before there is a tensor: every part of the state is looked at for it.
            self._reached = {id(each) for each in trained(self._values)}
        return id(value) in self._reached

    def reducer_override(self, value: Any) -> Any:
        if not is_tensor(value):
            return NotImplemented
        arguments = (str(value.dtype).split(".")[-1], tuple(value.shape), _content(value))
        own = is_trained(value)
        if own and self._is_within_reach(value):
            is_parameter = isinstance(value, sys.modules["torch"].nn.Parameter)
            return _trained_tensor, (*arguments, bool(is_parameter), bool(value.requires_grad))
        if own:
            raise refused(
                f"the state has a tensor that is trained ({_described(value)}) inside an object, and would put back "
                "another one than the optimizer has; make what has a state_dict a value of its own, as "
                "State(model=model), or keep tensors in lists, tuples and dictionaries"
            )
        if value.requires_grad:
            text = f"the state has a tensor that was computed from others that are trained ({_described(value)})"
            raise refused(f"{text}, and how isn't kept with it; detach() it")
        return _tensor, arguments


def restored(own: Dict[str, Any], kept: Dict[str, Any]) -> Dict[str, Any]:
    """What is kept, where it is trained in this rank's own tensors at the same places. Raises ``INCOMPATIBLE`` where
    one of those would give way to another tensor, which its optimizer wouldn't know of."""
    before = trained(own)
    if not before and not trained(kept):
        return kept
    filled: Dict[int, Tuple[Any, Any]] = {}
    values: Dict[str, Any] = _put(own, kept, filled)
    after = trained(values)
    new, gone = _without(after, before), _without(before, after)
    if new and gone:
        text = (
            f"the job's state has {_described(new[0])} to be trained where this rank's has {_described(gone[0])}, "
            "which its optimizer would go on with; keep the same parameters at the same places, at all ranks and in "
            "each run of a job"
        )
        raise RejoinError(Code.INCOMPATIBLE, text)
    for tensor, content in filled.values():
        with sys.modules["torch"].no_grad():
            tensor.copy_(content)
        tensor.requires_grad_(content.requires_grad)
    return values


def _put(own: Any, kept: Any, filled: Dict[int, Tuple[Any, Any]]) -> Any:
    """``filled``: the own tensors that take the place of those that are kept, which aren't copied before all of them
    are known."""
    if is_tensor(own) and is_tensor(kept):
        fits = own.is_leaf and own.shape == kept.shape and own.dtype == kept.dtype
        if not fits or not (is_trained(own) or is_trained(kept)):
            return kept
        _, other = filled.setdefault(id(own), (own, kept))
        if other is not kept and _content(other) != _content(kept):
            text = (
                f"a tensor of this rank's state ({_described(own)}) is at two places, where the job's state has "
                "different ones; give each place one of its own, as by clone()"
            )
            raise RejoinError(Code.INCOMPATIBLE, text)
        return own
    if isinstance(own, dict) and isinstance(kept, dict):
        for name in kept:
            if name in own:
                kept[name] = _put(own[name], kept[name], filled)
    elif isinstance(own, (list, tuple)) and isinstance(kept, (list, tuple)):
        parts = [_put(mine, theirs, filled) for mine, theirs in zip(own, kept)] + list(kept[len(own) :])
        if isinstance(kept, list):
            kept[:] = parts
        elif any(part is not theirs for part, theirs in zip(parts, kept)):
            return type(kept)._make(parts) if hasattr(kept, "_make") else type(kept)(parts)
    return kept


def _without(tensors: List[Any], others: List[Any]) -> List[Any]:
    known = {id(each) for each in others}
    return [each for each in tensors if id(each) not in known]


def _described(tensor: Any) -> str:
    return f"{tensor.dtype} of shape {tuple(tensor.shape)}"


def _content(tensor: Any) -> bytes:
    flat = tensor.detach().cpu().contiguous().reshape(-1)
    content: bytes = flat.view(sys.modules["torch"].uint8).numpy().tobytes()
    return content


def _tensor(dtype: str, shape: Any, content: bytes) -> Any:
    import torch

    if not content:
        return torch.empty(shape, dtype=getattr(torch, dtype))
    return torch.frombuffer(bytearray(content), dtype=getattr(torch, dtype)).reshape(shape)


def _trained_tensor(dtype: str, shape: Any, content: bytes, is_parameter: bool, requires_grad: bool) -> Any:
    made = _tensor(dtype, shape, content)
    if is_parameter:
        return sys.modules["torch"].nn.Parameter(made, requires_grad)
    return made.requires_grad_(requires_grad)
