"""markovlens: is my observation Markov, and if not, what must my agent remember?

Everything public is here; what it needs is imported when it is first asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from markovlens.memory.expand import fold_memory as fold_memory
    from markovlens.memory.expand import product_memory as product_memory
    from markovlens.pomdp import library as library
    from markovlens.pomdp.model import Pomdp as Pomdp
    from markovlens.pomdp.policies import random_policy as random_policy
    from markovlens.pomdp.policies import uniform_policy as uniform_policy
    from markovlens.values.discrepancy import lambda_discrepancy as lambda_discrepancy
    from markovlens.values.occupancy import occupancy as occupancy
    from markovlens.values.occupancy import state_weights as state_weights
    from markovlens.values.td_lambda import effective_mdp as effective_mdp
    from markovlens.values.td_lambda import q_values as q_values
    from markovlens.values.td_lambda import start_value as start_value
    from markovlens.values.td_lambda import state_values as state_values
    from markovlens.values.td_lambda import v_values as v_values
    from markovlens.values.theorems import explain as explain

# name -> module; a name that equals its module's last part is the module itself.
_PUBLIC = {
    "Pomdp": "pomdp.model",
    "library": "pomdp.library",
    "random_policy": "pomdp.policies",
    "uniform_policy": "pomdp.policies",
    "occupancy": "values.occupancy",
    "state_weights": "values.occupancy",
    "state_values": "values.td_lambda",
    "start_value": "values.td_lambda",
    "q_values": "values.td_lambda",
    "v_values": "values.td_lambda",
    "effective_mdp": "values.td_lambda",
    "lambda_discrepancy": "values.discrepancy",
    "explain": "values.theorems",
    "fold_memory": "memory.expand",
    "product_memory": "memory.expand",
}
_MODULES = {"library"}

__all__ = sorted(_PUBLIC)


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'markovlens' has no attribute {name!r}")
    module = import_module(f"markovlens.{_PUBLIC[name]}")
    value = module if name in _MODULES else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
