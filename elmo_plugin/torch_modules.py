"""PyTorch's modules, as they are shared by others, copied and pickled."""

from typing import Any, Self
from weakref import WeakValueDictionary

from torch import nn
from torch.utils.hooks import RemovableHandle


class Owner(nn.Module):
    """A module with a `bilm`, which others may have too; see `owners_of`."""

    bilm: Any

    def __new__(cls, *_: Any, **__: Any) -> Self:  # also makes copies, unlike `__init__`
        owner = super().__new__(cls)
        _owners[id(owner)] = owner
        return owner


_owners: WeakValueDictionary[int, Owner] = WeakValueDictionary()


def owners_of(bilm: nn.Module) -> list[Any]:
    """The modules that exist now and have this biLM, which share its precision and training."""
    # Unlike an iterator, this list does not mind that other threads create owners.
    return [x for reference in _owners.valuerefs() if getattr(x := reference(), "bilm", 0) is bilm]


def name_hook(handle: RemovableHandle) -> None:
    """
    Store a hook of a module under its name instead of the number of its handle. Numbers count all
    hooks of a process: equal modules would be pickled differently, and a hook that is added to an
    unpickled module could replace it.
    """
    hooks: Any = handle.hooks_dict_ref()
    hook = hooks.pop(handle.id)
    hooks[hook.__name__] = hook
