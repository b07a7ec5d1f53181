"""The figures that need no training: computed in closed form, in seconds."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
import polars as pl

from markovlens.experiments.items import Make, Scale
from markovlens.experiments.pictures import (
    BLUE,
    GREEN,
    ORANGE,
    PINK,
    RED,
    SKY,
    paper_style,
    save_figure,
)
from markovlens.pomdp import library
from markovlens.pomdp.model import Pomdp
from markovlens.pomdp.policies import random_distributions, random_policy
from markovlens.progress import Advance
from markovlens.values.discrepancy import lambda_discrepancy
from markovlens.values.td_lambda import v_values
from markovlens.values.theorems import transition_policies_match

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NEARLY_UNDISCOUNTED = 1.0 - 1e-6
N_POLICIES = 200


def fig_tmaze_sweep(out: Path) -> list[Path]:
    """Figure 3: the discrepancy grows with the share p of aliased observations."""
    tmaze = library.tmaze(gamma=NEARLY_UNDISCOUNTED)
    perfect = np.eye(tmaze.n_states)
    corridor, junction = _aliased(tmaze, "corridor"), _aliased(tmaze, "junction")
    both = np.where(_emits(tmaze, "junction")[:, None], junction, corridor)
    aliased = {"corridor": corridor, "junction": junction, "both": both}
    policy = _right_then_mostly_up(tmaze)
    shares = np.linspace(0.0, 1.0, 51)

    def discrepancy(Phi: jax.Array) -> jax.Array:
        # One observation per state: the policy, too, is written per state.
        pomdp = Pomdp(T=tmaze.T, R=tmaze.R, Phi=Phi, p0=tmaze.p0, gamma=tmaze.gamma)
        return lambda_discrepancy(pomdp, policy, norm="max", weighting="policy")

    curves = {
        name: np.asarray(
            jax.vmap(discrepancy)(
                (1.0 - shares)[:, None, None] * perfect + shares[:, None, None] * Phi
            )
        )
        for name, Phi in aliased.items()
    }
    numbers = pl.concat(
        pl.DataFrame({"aliased": name, "p": shares, "discrepancy": curve})
        for name, curve in curves.items()
    )
    with paper_style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(9.0, 2.9), layout="constrained")
        grid = figure.add_gridspec(2, 5, width_ratios=[1.4, 0.1, 2.2, 0.9, 0.9])
        _heatmap(figure.add_subplot(grid[:, 0]), perfect, "perfect")
        panel = figure.add_subplot(grid[:, 2])
        for (name, curve), colour, dash in zip(
            curves.items(), (BLUE, ORANGE, GREEN), ("-", "--", "-."), strict=True
        ):
            label = "corridor and junction" if name == "both" else name
            panel.plot(shares, curve, dash, color=colour, label=label)
        panel.set(xlabel="share $p$ of aliased observations", ylabel="λ-discrepancy")
        panel.set(xlim=(0, 1), ylim=(0, None))
        panel.legend(title="aliased")
        for (name, Phi), cell in zip(
            aliased.items(), (grid[0, 3], grid[0, 4], grid[1, 3:]), strict=True
        ):
            _heatmap(figure.add_subplot(cell), Phi, name)
    return save_figure(figure, numbers, out, "fig-tmaze-sweep")


def fig_mc_vs_td(out: Path) -> list[Path]:
    """The value of each square of the T-maze, as Monte Carlo and as TD see it."""
    tmaze = library.tmaze(gamma=NEARLY_UNDISCOUNTED)
    policy = np.zeros((tmaze.n_observations, tmaze.n_actions))
    policy[:, tmaze.actions.index("right")] = 1.0
    policy[tmaze.observations.index("junction")] = np.eye(tmaze.n_actions)[
        tmaze.actions.index("up")
    ]
    values = {
        "Monte Carlo (λ = 1)": np.asarray(v_values(tmaze, policy, 1.0)),
        "TD (λ = 0)": np.asarray(v_values(tmaze, policy, 0.0)),
    }
    numbers = pl.concat(
        pl.DataFrame({"estimator": name, "observation": tmaze.observations, "value": value})
        for name, value in values.items()
    )
    with paper_style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(7.4, 3.0), layout="constrained")
        panels = figure.subplots(1, 2)
        for panel, (name, value) in zip(panels, values.items(), strict=True):
            seen = dict(zip(tmaze.observations, value, strict=True))
            _draw_tmazes(panel, seen)
            panel.set_title(name)
    return save_figure(figure, numbers, out, "fig-mc-vs-td")


def fig_parity(out: Path) -> list[Path]:
    """Figure 5, left and centre: Parity Check, and what a random bit of memory reveals."""
    parity = library.parity_check()
    seeds = jnp.arange(N_POLICIES)

    def without_memory(seed: jax.Array) -> jax.Array:
        return lambda_discrepancy(parity, random_policy(parity, seed))

    def with_memory(seed: jax.Array) -> jax.Array:
        keys = jax.random.split(jax.random.key(seed))
        sizes = (parity.n_observations, parity.n_actions)
        policy = random_distributions(keys[0], (sizes[0], 2, sizes[1]))
        memory = random_distributions(keys[1], (*sizes, 2, 2))
        return lambda_discrepancy(parity, policy, memory=memory)

    plain = np.asarray(jax.vmap(without_memory)(seeds))
    revealed = np.asarray(jax.vmap(with_memory)(seeds))
    numbers = pl.DataFrame({"seed": np.asarray(seeds), "memoryless": plain, "one_bit": revealed})
    with paper_style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(6.6, 2.9), layout="constrained")
        drawing, panel = figure.subplots(1, 2, width_ratios=[1.0, 1.3])
        _draw_parity(drawing)
        panel.hist(revealed, bins=30, color=BLUE, label="random 1-bit memory")
        panel.axvline(plain.max(), color=RED, label=f"memoryless (all below {_ceiling(plain)})")
        panel.set(xlabel="λ-discrepancy", ylabel=f"of {N_POLICIES} random policies")
        panel.legend()
    return save_figure(figure, numbers, out, "fig-parity")


def fig_parity_sweeps(out: Path) -> list[Path]:
    """Slight changes to Parity Check end its symmetry, for almost every policy."""
    stays, starts = np.linspace(0.0, 0.95, 20), np.linspace(0.05, 0.85, 33)
    symmetric = library.parity_check()
    policies = jax.vmap(lambda seed: random_policy(symmetric, seed))(jnp.arange(30))
    parts = []
    for change, grid in (("stay", stays), ("start", starts)):
        for level in grid:
            pomdp = (
                library.parity_check(stay=level)
                if change == "stay"
                else library.parity_check(start=(level, *[(1.0 - level) / 3.0] * 3))
            )
            found = _discrepancies(pomdp, policies)
            parts.append(
                pl.DataFrame(
                    {
                        "change": change,
                        "level": level,
                        "policy": np.arange(len(policies)),
                        "discrepancy": found,
                    }
                )
            )
    numbers = pl.concat(parts)
    labels = {
        "stay": "probability that $down$ stays in place at red",
        "start": "probability of the first of the four starts",
    }
    with paper_style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(6.6, 2.6), layout="constrained")
        for panel, (change, label) in zip(figure.subplots(1, 2), labels.items(), strict=True):
            rows = numbers.filter(pl.col("change") == change)
            for _, line in rows.group_by("policy", maintain_order=True):
                panel.plot(line["level"], line["discrepancy"], color=SKY, lw=0.6, alpha=0.7)
            mean = rows.group_by("level", maintain_order=True).agg(pl.col("discrepancy").mean())
            panel.plot(mean["level"], mean["discrepancy"], color=BLUE, lw=2, label="mean")
            panel.set(xlabel=label, ylim=(0, None))
        panel.axvline(0.25, color=RED, ls=":", label="symmetric")
        panel.legend()
        figure.axes[0].set_ylabel("λ-discrepancy")
    return save_figure(figure, numbers, out, "fig-parity-sweeps")


def fig_tk_equality(out: Path) -> list[Path]:
    """The POMDP that is an MDP: six states, five states, and the same values."""
    pomdp, mdp = library.equivalent_mdp(), library.equivalent_mdp_collapsed()
    assert transition_policies_match(pomdp)
    seeds = jnp.arange(N_POLICIES)
    policies = jax.vmap(lambda seed: random_policy(mdp, seed))(seeds)
    aliased, collapsed = (
        np.asarray(jax.vmap(lambda policy, model=model: v_values(model, policy, 0.5))(policies))
        for model in (pomdp, mdp)
    )
    numbers = pl.DataFrame(
        {
            "seed": np.asarray(seeds),
            "discrepancy": _discrepancies(pomdp, policies),
            "largest_value_difference": np.abs(aliased - collapsed).max(axis=1),
        }
    )
    with paper_style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(7.0, 2.8), layout="constrained")
        left, right = figure.subplots(1, 2)
        _draw_fork(left, pomdp, "six states, $s_x$ looks like either neighbour")
        _draw_fork(right, mdp, "the equivalent MDP")
        worst = numbers.select("discrepancy", "largest_value_difference").to_numpy()
        figure.supxlabel(
            f"λ-discrepancy and value difference below {_ceiling(worst)} "
            f"for {N_POLICIES} random policies",
            fontsize=9,
        )
    return save_figure(figure, numbers, out, "fig-tk-equality")


def _at_any_scale(draw: Callable[[Path], list[Path]]) -> Make:
    def make(out: Path, scale: Scale, results: Path | None, progress: Advance) -> list[Path]:
        return draw(out)

    return make


MAKERS: dict[str, Make] = {
    "fig-tmaze-sweep": _at_any_scale(fig_tmaze_sweep),
    "fig-mc-vs-td": _at_any_scale(fig_mc_vs_td),
    "fig-parity": _at_any_scale(fig_parity),
    "fig-parity-sweeps": _at_any_scale(fig_parity_sweeps),
    "fig-tk-equality": _at_any_scale(fig_tk_equality),
}


def _discrepancies(pomdp: Pomdp, policies: jax.Array) -> np.ndarray:
    return np.asarray(jax.vmap(lambda policy: lambda_discrepancy(pomdp, policy))(policies))


def _emits(pomdp: Pomdp, observation: str) -> np.ndarray:
    return np.asarray(pomdp.Phi)[:, pomdp.observations.index(observation)] > 0.0


def _aliased(tmaze: Pomdp, observation: str) -> np.ndarray:
    """One observation per state, but those that emit `observation` show any of theirs at random."""
    shared = _emits(tmaze, observation)
    block = np.outer(shared, shared) / shared.sum()
    return np.where(shared[:, None], block, np.eye(tmaze.n_states))


def _right_then_mostly_up(tmaze: Pomdp) -> np.ndarray:
    """For one observation per state: right, and at the junction up 2/3, down 1/3."""
    policy = np.zeros((tmaze.n_states, tmaze.n_actions))
    policy[:, tmaze.actions.index("right")] = 1.0
    at_junction = _emits(tmaze, "junction")
    policy[at_junction] = 0.0
    policy[at_junction, tmaze.actions.index("up")] = 2.0 / 3.0
    policy[at_junction, tmaze.actions.index("down")] = 1.0 / 3.0
    return policy


def _ceiling(values: np.ndarray) -> str:
    """A power of ten that none of the values exceeds, at least 1e-15."""
    exponent = int(np.ceil(np.log10(max(float(values.max()), 1e-15))))
    return f"$10^{{{exponent}}}$"


def _heatmap(panel: "Axes", Phi: np.ndarray, title: str) -> None:
    panel.imshow(Phi, cmap="cividis", vmin=0.0, vmax=1.0)
    panel.set(xticks=[], yticks=[], xlabel="observation", ylabel="state")
    panel.set_title(rf"$\Phi$ {title}")
    panel.spines[:].set_visible(False)


def _draw_tmazes(panel: "Axes", values: dict[str, float]) -> None:
    from matplotlib import colormaps
    from matplotlib.colors import Normalize
    from matplotlib.patches import Rectangle

    colour, norm = colormaps["cividis"], Normalize(-0.1, 4.0)
    for y, start, goals in ((0.0, "red", (-0.1, 4.0)), (4.0, "blue", (4.0, -0.1))):
        squares = [(0, y, start), *((x, y, "corridor") for x in range(1, 6)), (6, y, "junction")]
        for x, height, seen in squares:
            value = values[seen]
            panel.add_patch(
                Rectangle((x, height), 1, 1, facecolor=colour(norm(value)), edgecolor="white")
            )
            dark = norm(value) < 0.6
            panel.text(
                x + 0.5, height + 0.5, f"{value:.2f}".rstrip("0").rstrip("."), ha="center",
                va="center", fontsize=8, color="white" if dark else "black",
            )  # fmt: skip
        for centre, name in ((0.5, start), (3.5, "corridor")):
            panel.text(centre, y - 0.42, name, ha="center", fontsize=7)
        panel.text(7.15, y + 0.5, "junction", va="center", fontsize=7)
        for height, reward in ((y + 1, goals[0]), (y - 1, goals[1])):
            panel.add_patch(
                Rectangle((6, height), 1, 1, facecolor="none", edgecolor="grey", ls="--")
            )
            panel.text(6.5, height + 0.5, f"{reward:+g}", ha="center", va="center", fontsize=8)
    panel.set(xlim=(-0.2, 8.6), ylim=(-1.3, 6.2), aspect="equal")
    panel.axis("off")


_COLOURS = {"red": RED, "blue": BLUE, "pink": PINK, "cyan": SKY, "white": "white"}


def _draw_parity(panel: "Axes") -> None:
    from matplotlib.patches import Circle

    for column, (first, second, up) in enumerate(
        (("red", "pink", 1), ("red", "cyan", -1), ("blue", "pink", -1), ("blue", "cyan", 1))
    ):
        for row, colour in enumerate((first, second, "white")):
            y = 2.0 - row
            panel.add_patch(Circle((column, y), 0.28, facecolor=_COLOURS[colour], edgecolor="k"))
            if row < 2:
                panel.annotate(
                    "",
                    (column, y - 0.70),
                    (column, y - 0.30),
                    arrowprops={"arrowstyle": "->", "color": "grey"},
                )
        panel.text(
            column, -0.55, f"up {up:+d}\ndown {-up:+d}", ha="center", va="center", fontsize=7
        )
    for y, text in ((2, "first"), (1, "then"), (0, "choose")):
        panel.text(-0.55, y, text, ha="right", va="center", fontsize=8)
    panel.set(xlim=(-1.4, 3.5), ylim=(-1.0, 2.5), aspect="equal")
    panel.axis("off")


def _draw_fork(panel: "Axes", pomdp: Pomdp, title: str) -> None:
    from matplotlib.patches import Circle

    T, Phi = np.asarray(pomdp.T), np.asarray(pomdp.Phi)
    middle = [name for name in pomdp.states if name in ("s1", "sx", "s2")]
    heights = np.linspace(1.0, -1.0, len(middle))
    place = {"s0": (0.0, 0.0), "goal": (3.2, 0.6), "end": (3.2, -0.6)}
    place |= {name: (1.6, float(y)) for name, y in zip(middle, heights, strict=True)}
    tones = {"o0": "white", "o1": SKY, "o2": ORANGE, "goal": GREEN, "end": "lightgrey"}
    s0 = pomdp.states.index("s0")
    for name in middle:
        _arrow(panel, place["s0"], place[name], f"{T[0, s0, pomdp.states.index(name)]:g}", "grey")
    for name in middle:
        s = pomdp.states.index(name)
        for a, (action, colour) in enumerate(zip(pomdp.actions, (BLUE, RED), strict=True)):
            chance = float(T[a, s, pomdp.states.index("goal")])
            if chance > 0.0:
                bend = 0.12 if action == "up" else -0.12
                label = f"{action} {chance:.2g}"
                _arrow(panel, place[name], place["goal"], label, colour, bend)
    _arrow(panel, place["goal"], place["end"], "pays 1", "grey")
    for name, (x, y) in place.items():
        seen = [
            o for o, p in zip(pomdp.observations, Phi[pomdp.states.index(name)], strict=True) if p
        ]
        panel.add_patch(Circle((x, y), 0.26, facecolor=tones[seen[0]], edgecolor="k", zorder=3))
        if len(seen) == 2:
            from matplotlib.patches import Wedge

            panel.add_patch(Wedge((x, y), 0.26, 270, 90, facecolor=tones[seen[1]], zorder=4))
        panel.text(x, y, name, ha="center", va="center", fontsize=8, zorder=5)
    panel.set(xlim=(-0.5, 3.7), ylim=(-1.5, 1.5), aspect="equal")
    panel.text(3.2, -1.0, "(else)", ha="center", va="center", fontsize=6.5, color="grey")
    panel.set_title(title)
    panel.axis("off")


def _arrow(
    panel: "Axes",
    start: tuple[float, float],
    end: tuple[float, float],
    label: str,
    colour: str,
    bend: float = 0.0,
) -> None:
    panel.annotate(
        "",
        end,
        start,
        arrowprops={
            "arrowstyle": "->",
            "color": colour,
            "shrinkA": 12,
            "shrinkB": 12,
            "connectionstyle": f"arc3,rad={bend}",
        },
    )
    x, y = (start[0] + end[0]) / 2, (start[1] + end[1]) / 2 - bend
    panel.text(
        x, y, label, fontsize=6.5, color=colour, ha="center", va="center",
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5},
    )  # fmt: skip
