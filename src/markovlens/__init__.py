"""markovlens: is my observation Markov, and if not, what must my agent remember?

Everything public is here; what it needs is imported when it is first asked for.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from markovlens.agents.config import PPOConfig as PPOConfig
    from markovlens.agents.evaluate import evaluate as evaluate
    from markovlens.agents.run import Run as Run
    from markovlens.agents.run import load_run as load_run
    from markovlens.agents.training import train as train
    from markovlens.agents.training import train_together as train_together
    from markovlens.envs.registry import make as make
    from markovlens.evidence.detect import detect as detect
    from markovlens.evidence.trajectories import Trajectories as Trajectories
    from markovlens.memory.config import MemoryConfig as MemoryConfig
    from markovlens.memory.expand import fold_memory as fold_memory
    from markovlens.memory.expand import product_memory as product_memory
    from markovlens.memory.learn import learn_memories as learn_memories
    from markovlens.memory.learn import learn_memory as learn_memory
    from markovlens.memory.learned import LearnedMemory as LearnedMemory
    from markovlens.pomdp import library as library
    from markovlens.pomdp.cassandra import parse_pomdp as parse_pomdp
    from markovlens.pomdp.cassandra import read_pomdp as read_pomdp
    from markovlens.pomdp.cassandra import write_pomdp as write_pomdp
    from markovlens.pomdp.model import Pomdp as Pomdp
    from markovlens.pomdp.policies import random_policy as random_policy
    from markovlens.pomdp.policies import uniform_policy as uniform_policy
    from markovlens.pomdp.solve import solve as solve
    from markovlens.values.discrepancy import lambda_discrepancy as lambda_discrepancy
    from markovlens.values.occupancy import occupancy as occupancy
    from markovlens.values.occupancy import state_weights as state_weights
    from markovlens.values.td_lambda import effective_mdp as effective_mdp
    from markovlens.values.td_lambda import q_values as q_values
    from markovlens.values.td_lambda import start_value as start_value
    from markovlens.values.td_lambda import state_values as state_values
    from markovlens.values.td_lambda import v_values as v_values
    from markovlens.values.theorems import explain as explain

# Where each name lives; `library` is a module itself.
_HOMES = {
    "LearnedMemory": "memory.learned",
    "MemoryConfig": "memory.config",
    "PPOConfig": "agents.config",
    "Pomdp": "pomdp.model",
    "Run": "agents.run",
    "Trajectories": "evidence.trajectories",
    "detect": "evidence.detect",
    "effective_mdp": "values.td_lambda",
    "evaluate": "agents.evaluate",
    "explain": "values.theorems",
    "fold_memory": "memory.expand",
    "lambda_discrepancy": "values.discrepancy",
    "learn_memories": "memory.learn",
    "learn_memory": "memory.learn",
    "library": "pomdp.library",
    "load_run": "agents.run",
    "make": "envs.registry",
    "occupancy": "values.occupancy",
    "parse_pomdp": "pomdp.cassandra",
    "product_memory": "memory.expand",
    "q_values": "values.td_lambda",
    "random_policy": "pomdp.policies",
    "read_pomdp": "pomdp.cassandra",
    "solve": "pomdp.solve",
    "start_value": "values.td_lambda",
    "state_values": "values.td_lambda",
    "state_weights": "values.occupancy",
    "train": "agents.training",
    "train_together": "agents.training",
    "uniform_policy": "pomdp.policies",
    "v_values": "values.td_lambda",
    "write_pomdp": "pomdp.cassandra",
}

__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'markovlens' has no attribute {name!r}")
    home = import_module(f"markovlens.{_HOMES[name]}")
    value = home if name == "library" else getattr(home, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__


if find_spec("gymnasium") is not None:
    from markovlens.envs.adapters.registration import register as _register

    _register()
