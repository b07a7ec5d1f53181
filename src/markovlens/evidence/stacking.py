"""The same steps seen with the last few observations, and the last action, side by side."""

import numpy as np

from markovlens.evidence.history import lag
from markovlens.evidence.trajectories import Trajectories


def stack(trajectories: Trajectories, frames: int, previous_action: bool) -> Trajectories:
    """Observations become `[o_t, o_{t-1}, …, o_{t-frames+1}]`, with `a_{t-1}` behind them if asked.

    What lies before the start of an episode is filled with -1 and flagged by a last column that
    counts the missing frames.
    """
    flat = trajectories.observation.reshape(len(trajectories), -1).astype(np.float64)
    following = trajectories.next_observation.reshape(len(trajectories), -1).astype(np.float64)
    action = trajectories.action.reshape(len(trajectories), -1).astype(np.float64)
    lagged = [lag(flat, trajectories, j) for j in range(frames)]
    now, then = list(lagged), [following, *lagged[:-1]]
    if previous_action:
        now.append(lag(action, trajectories, 1))
        then.append(action)
    reach = max(frames - 1, int(previous_action))
    missing = np.maximum(reach - trajectories.time, 0)[:, None]
    now.append(missing)
    then.append(np.maximum(missing - 1, 0))
    return trajectories.with_observations(np.hstack(now), np.hstack(then))
