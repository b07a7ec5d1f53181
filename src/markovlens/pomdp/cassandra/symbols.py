"""The names in a file: states, actions, observations."""

from collections.abc import Sequence

from markovlens.pomdp.cassandra.writes import ANY


class Symbols:
    """The states, actions or observations of a file: by name, by number, or `*` for all."""

    def __init__(self, kind: str, names: Sequence[str]):
        self.kind, self.names = kind, tuple(names)
        self.index = {str(i): i for i in range(len(self.names))} | {"*": ANY}
        self.index |= {name: i for i, name in enumerate(self.names)}

    def __len__(self) -> int:
        return len(self.names)

    def describe(self) -> str:
        listed = ", ".join(self.names[:6]) + (", ..." if len(self.names) > 6 else "")
        return f"one of the {self.kind} ({listed}), its number (0 to {len(self) - 1}), or *"
