"""Running statistics of rollouts: small PyTrees that carry over from one rollout to the next.

Both take rewards and ends as a rollout gives them, [L, N], and are part of a checkpoint.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int


class RewardScale(eqx.Module):
    """Divides rewards by the running standard deviation of the discounted return so far.

    With `g_t = r_t + γ g_{t-1}` (from 0 again after an end) over all environments and all time up
    to the end of this rollout, the scaled reward is `r_t / sqrt(Var[g] + 1e-8)`.

    >>> scale = RewardScale(n=4, gamma=0.99)
    >>> scale, scaled = scale.update(jnp.ones((8, 4)), jnp.zeros((8, 4), dtype=bool))
    """

    running: Float[Array, "N"]  # g of the last step, 0 where that step ended an episode
    count: Float[Array, ""]
    mean: Float[Array, ""]
    squares: Float[Array, ""]  # sum of squared deviations from the mean
    gamma: Float[Array, ""]

    def __init__(self, n: int, gamma: float | Array):
        self.running = jnp.zeros(n, dtype=jnp.float32)
        self.count = self.mean = self.squares = jnp.float32(0.0)
        self.gamma = jnp.float32(gamma)

    def restarted(self) -> "RewardScale":
        """The same with all episodes begun anew."""
        return eqx.tree_at(lambda s: s.running, self, jnp.zeros_like(self.running))

    @property
    def sd(self) -> Float[Array, ""]:
        """What rewards are divided by now; 1 before the first update."""
        variance = self.squares / jnp.maximum(self.count, 1.0) + 1e-8
        return jnp.where(self.count > 0, jnp.sqrt(variance), 1.0)

    def update(
        self, rewards: Float[Array, "L N"], ended: Bool[Array, "L N"]
    ) -> tuple["RewardScale", Float[Array, "L N"]]:
        """The statistics with this rollout in them, and its rewards scaled by them."""

        def one_step(
            before: Float[Array, "N"], now: tuple[Array, Array]
        ) -> tuple[Float[Array, "N"], Float[Array, "N"]]:
            reward, end = now
            g = reward + self.gamma * before
            return jnp.where(end, 0.0, g), g

        running, g = jax.lax.scan(one_step, self.running, (rewards, ended))
        # Two samples' means and squares combine exactly (Chan, Golub and LeVeque).
        added = jnp.float32(g.size)
        count = self.count + added
        apart = g.mean() - self.mean
        mean = self.mean + apart * added / count
        squares = self.squares + g.var() * added + apart**2 * self.count * added / count
        after = eqx.tree_at(
            lambda s: (s.running, s.count, s.mean, s.squares), self, (running, count, mean, squares)
        )
        return after, rewards / after.sd


class Episodes(eqx.Module):
    """What is known of the episode each step belongs to, up to that step; leaves [L, N].

    Where `ended` is True these are a completed episode's.
    """

    ended: Bool[Array, "L N"]
    total: Float[Array, "L N"]  # Σ r
    discounted: Float[Array, "L N"]  # Σ γ^t r
    length: Int[Array, "L N"]

    @property
    def count(self) -> Int[Array, ""]:
        """How many episodes were completed."""
        return self.ended.sum()


class EpisodeStatistics(eqx.Module):
    """Follows episodes across the borders of rollouts.

    >>> statistics = EpisodeStatistics(n=2, gamma=0.9)
    >>> ended = jnp.array([[False, False], [True, False]])
    >>> statistics, episodes = statistics.update(jnp.ones((2, 2)), ended)
    >>> round(float(episodes.discounted[1, 0]), 3)
    1.9
    """

    total: Float[Array, "N"]
    discounted: Float[Array, "N"]
    discount: Float[Array, "N"]  # γ^t of the coming step
    length: Int[Array, "N"]
    gamma: Float[Array, ""]

    def __init__(self, n: int, gamma: float):
        self.total = self.discounted = jnp.zeros(n, dtype=jnp.float32)
        self.discount = jnp.ones(n, dtype=jnp.float32)
        self.length = jnp.zeros(n, dtype=jnp.int32)
        self.gamma = jnp.float32(gamma)

    def restarted(self) -> "EpisodeStatistics":
        """The same with all episodes begun anew."""
        zero, one = jnp.zeros_like(self.total), jnp.ones_like(self.discount)
        return eqx.tree_at(
            lambda s: (s.total, s.discounted, s.discount, s.length),
            self,
            (zero, zero, one, jnp.zeros_like(self.length)),
        )

    def update(
        self, rewards: Float[Array, "L N"], ended: Bool[Array, "L N"]
    ) -> tuple["EpisodeStatistics", Episodes]:
        """The statistics after this rollout, and the episodes in it."""

        def one_step(
            before: EpisodeStatistics, now: tuple[Array, Array]
        ) -> tuple[EpisodeStatistics, Episodes]:
            reward, end = now
            total = before.total + reward
            discounted = before.discounted + before.discount * reward
            length = before.length + 1
            after = eqx.tree_at(
                lambda s: (s.total, s.discounted, s.discount, s.length),
                before,
                (
                    jnp.where(end, 0.0, total),
                    jnp.where(end, 0.0, discounted),
                    jnp.where(end, 1.0, before.discount * before.gamma),
                    jnp.where(end, 0, length),
                ),
            )
            return after, Episodes(end, total, discounted, length)

        return jax.lax.scan(one_step, self, (rewards, ended))
