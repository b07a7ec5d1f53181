"""Options of the kinds that they are declared to have."""

from dataclasses import fields
from functools import cache
from numbers import Real
from types import NoneType, UnionType
from typing import Any, Literal, get_args, get_origin, get_type_hints

import numpy as np

from markovlens.names import unknown_name


def check_options(config: Any) -> None:
    """Make each option of a frozen dataclass what it is declared to be, or refuse it.

    TOML knows lists for tuples, NumPy has numbers of its own, and people write 1e6 steps.
    """
    hints = _hints(config.__class__)
    for field in fields(config):
        value = _typed(field.name, getattr(config, field.name), hints[field.name])
        object.__setattr__(config, field.name, value)


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _typed(name: str, value: Any, hint: Any) -> Any:
    kinds = get_args(hint) if isinstance(hint, UnionType) else (hint,)
    if value is None and NoneType in kinds:
        return None
    kind = next(kind for kind in kinds if kind is not NoneType)
    if get_origin(kind) is Literal:
        if value not in get_args(kind):
            raise unknown_name(name, str(value), get_args(kind))
        return value
    if get_origin(kind) is tuple:
        if not isinstance(value, list | tuple):
            raise ValueError(f"{name} must be a list of whole numbers, got {value!r}")
        return tuple(_typed(f"every one of {name}", entry, int) for entry in value)
    if kind is str:
        if not isinstance(value, str):
            raise ValueError(f"{name} must be a text, got {value!r}")
        return value
    if kind is bool:
        if not isinstance(value, bool | np.bool_):
            raise ValueError(f"{name} must be true or false, got {value!r}")
        return bool(value)
    if isinstance(value, bool) or not isinstance(value, Real):
        raise ValueError(f"{name} must be a number, got {value!r}")
    if kind is int and not float(value).is_integer():
        raise ValueError(f"{name} must be a whole number, got {value!r}")
    return kind(value)
