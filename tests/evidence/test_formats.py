import gc
import json
import re
import sys
import warnings
from types import SimpleNamespace

import gymnasium
import numpy as np
import polars as pl
import pytest

from markovlens.evidence.formats import load
from markovlens.evidence.sources import experience, load_model, resolve
from markovlens.evidence.trajectories import Trajectories

STEPS = {
    "observation": [[0.5, 1.0], [1.5, 2.0], [2.5, 3.0]],
    "action": [0, 1, 0],
    "reward": [1.0, 2.0, 3.0],
    "terminated": [False, True, True],
    "truncated": [False, False, False],
    "next_observation": [[1.5, 2.0], [0.0, 0.0], [0.0, 0.0]],
}


def assert_same(data: Trajectories):
    expected = Trajectories(**STEPS)
    for name, value in expected.arrays().items():
        np.testing.assert_array_equal(getattr(data, name), value)


def test_numpy_archives(tmp_path):
    np.savez(tmp_path / "a.npz", **STEPS)
    assert_same(load(tmp_path / "a.npz"))


def test_other_names_for_columns(tmp_path):
    other = {
        "observations": STEPS["observation"],
        "actions": STEPS["action"],
        "rewards": STEPS["reward"],
        "terminals": STEPS["terminated"],
        "timeouts": STEPS["truncated"],
        "next_observations": STEPS["next_observation"],
    }
    np.savez(tmp_path / "a.npz", **other)
    assert_same(load(tmp_path / "a.npz"))


def entry_by_entry(entries: dict[str, int]) -> pl.DataFrame:
    """The steps with a column for every entry of the observations, in the order given."""
    flat = {k: v for k, v in STEPS.items() if "observation" not in k}
    for name in ("observation", "next_observation"):
        for entry, i in entries.items():
            flat[f"{name}_{entry}"] = [row[i] for row in STEPS[name]]
    return pl.DataFrame(flat)


def test_parquet_with_lists_and_with_numbered_columns(tmp_path):
    pl.DataFrame(STEPS).write_parquet(tmp_path / "lists.parquet")
    assert_same(load(tmp_path / "lists.parquet"))
    entry_by_entry({"1": 1, "0": 0}).write_parquet(tmp_path / "flat.parquet")
    assert_same(load(tmp_path / "flat.parquet"))


def test_one_vector_whole_and_the_other_entry_by_entry(tmp_path):
    mixed = entry_by_entry({"0": 0, "1": 1}).drop("observation_0", "observation_1")
    mixed.with_columns(obs=pl.Series(STEPS["observation"])).write_parquet(tmp_path / "a.parquet")
    assert_same(load(tmp_path / "a.parquet"))


def test_csv_with_named_entries(tmp_path):
    table = entry_by_entry({"speed": 0, "angle": 1})
    table.write_csv(tmp_path / "a.csv")
    data = load(tmp_path / "a.csv")
    assert_same(data)
    assert data.entry_names == ("speed", "angle")
    wrong = table.rename({"next_observation_speed": "next_observation_height"})
    wrong.write_csv(tmp_path / "b.csv")
    with pytest.raises(ValueError, match="next_observation has the entries height, angle"):
        load(tmp_path / "b.csv")


@pytest.mark.parametrize("numbers", [("1", "2"), ("0", "2")])
def test_numbers_that_do_not_run_from_0_are_names(tmp_path, numbers):
    entry_by_entry(dict(zip(numbers, (0, 1), strict=True))).write_csv(tmp_path / "a.csv")
    data = load(tmp_path / "a.csv")
    assert_same(data)
    assert data.entry_names == tuple(f"entry {number}" for number in numbers)
    assert [data.entry(number) for number in numbers] == [0, 1]
    assert data.entry(f"observation_{numbers[1]}") == 1
    with pytest.raises(ValueError, match="unknown entry of the observation '3'"):
        data.entry("3")


def test_structs_keep_the_names_of_their_fields(tmp_path):
    """Nested ones too; what else begins with the column's name is left alone."""
    seen = [{"speed": x, "at": {"angle": y}} for x, y in STEPS["observation"]]
    after = [{"speed": x, "at": {"angle": y}} for x, y in STEPS["next_observation"]]
    struct = {"observation": seen, "next_observation": [after[0], None, None]}
    more = {"observation_source": ["camera"] * 3}
    pl.DataFrame(STEPS | struct | more).write_parquet(tmp_path / "a.parquet")
    data = load(tmp_path / "a.parquet")
    assert data.observation.tolist() == STEPS["observation"]
    assert data.next_observation[0].tolist() == STEPS["next_observation"][0]
    assert data.entry_names == ("speed", "at_angle")


@pytest.mark.parametrize(
    ("header", "says"),
    [
        ("observation;action;reward;terminated", "is it separated by ';'?"),
        ("observation\taction\treward\tterminated", r"is it separated by '\t'?"),
        ("observation,action,reward,terminated, reward", "there are 2 columns 'reward'; keep one"),
        ("Observation,Action,Reward,Terminated", "did you mean 'observation' by 'Observation'?"),
        ("obs,action,reward,Terminals", "did you mean 'terminals' by 'Terminals'?"),
    ],
)
def test_headers_that_are_nearly_right(tmp_path, header, says):
    row = re.sub(r"\w+", "0", header)
    (tmp_path / "a.csv").write_text(f"{header}\n{row}\n")
    with pytest.raises(ValueError, match=re.escape(says)):
        load(tmp_path / "a.csv")


def test_other_columns_may_have_the_same_name(tmp_path):
    text = "observation,action,reward,terminated,note,note\n0,0,1,true,a,b\n"
    (tmp_path / "a.csv").write_text(text)
    assert len(load(tmp_path / "a.csv")) == 1


def test_one_value_a_step_may_be_a_vector_of_one(tmp_path):
    flat = {name: STEPS[name] for name in ("reward", "terminated", "truncated")}
    flat |= {"episode": [0, 0, 1]}
    columns = {name: [[value] for value in values] for name, values in flat.items()}
    np.savez(tmp_path / "a.npz", **STEPS | columns)
    assert_same(load(tmp_path / "a.npz"))
    steps = {"observation": [0, 1], "action": [0, 0], "reward": [[1.0], [2.0]]}
    lines = [json.dumps(steps | {"terminated": [[False], [over]]}) for over in (False, True)]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    data = load(tmp_path / "a.jsonl")
    assert data.n_episodes == 2  # the first was cut at the end of its line
    assert data.reward.tolist() == [1.0, 1.0, 2.0]


def test_environments_that_show_nothing_are_refused():
    class Blind(gymnasium.Env):
        observation_space = gymnasium.spaces.Dict({})
        action_space = gymnasium.spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            return {}, {}

    with pytest.raises(ValueError, match="observations are empty: there is nothing to see"):
        experience(Blind(), steps=50)


def test_blanks_after_commas(tmp_path):
    lines = ["observation, action, reward, terminated", "0, 1, 0.5, 0", "1, 0, -1e0, 1"]
    (tmp_path / "a.csv").write_text("\n".join(lines))
    data = load(tmp_path / "a.csv")
    assert data.observation.tolist() == [0, 1]
    assert data.reward.tolist() == [0.5, -1.0]
    assert data.terminated.tolist() == [False, True]


def test_decimal_numbers_are_numbers(tmp_path):
    columns = {"observation": [0, 1], "action": [0, 0], "terminated": [False, True]}
    reward = pl.Series("reward", ["0.25", "1.50"]).str.to_decimal(scale=2)
    table = pl.DataFrame(columns).with_columns(reward)
    table.write_parquet(tmp_path / "a.parquet")
    assert load(tmp_path / "a.parquet").reward.tolist() == [0.25, 1.5]


def test_what_only_begins_like_a_column_is_left_alone(tmp_path):
    """Logs hold much else, as an action's probability; empty cells do not matter there."""
    table = pl.DataFrame(STEPS).with_columns(action_probability=pl.Series([0.5, None, 0.1]))
    table.write_parquet(tmp_path / "a.parquet")
    assert_same(load(tmp_path / "a.parquet"))


def test_episodes_by_number(tmp_path):
    steps = {"obs": [3, 4, 5, 6], "action": [0] * 4, "reward": [1.0] * 4, "episode": [7, 7, 8, 8]}
    np.savez(tmp_path / "a.npz", **steps, terminated=[False, False, False, True])
    data = load(tmp_path / "a.npz")
    assert data.n_episodes == 2
    assert data.observation.tolist() == [3, 5, 6]  # what step 1 led to was not written down
    assert data.truncated.tolist() == [True, False, False]
    np.savez(tmp_path / "b.npz", **steps, terminated=[True, False, False, True])
    with pytest.raises(ValueError, match="step 0 is terminated, but the next belongs to the same"):
        load(tmp_path / "b.npz")
    flags = {"terminated": [False, False, False, True], "truncated": np.zeros(4)}
    np.savez(tmp_path / "f.npz", **steps, **flags)
    assert load(tmp_path / "f.npz").n_episodes == 2
    np.savez(tmp_path / "c.npz", **steps, terminated=[True])
    with pytest.raises(ValueError, match=r"episode has shape \[4\] and terminated \[1\]"):
        load(tmp_path / "c.npz")


def test_json_lines_by_step_and_by_episode(tmp_path):
    steps = [{k: v[i] for k, v in STEPS.items()} for i in range(3)]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, steps)))
    assert_same(load(tmp_path / "a.jsonl"))
    episodes = [{k: v[:2] for k, v in STEPS.items()}, {k: v[2:] for k, v in STEPS.items()}]
    (tmp_path / "b.jsonl").write_text("\n".join(map(json.dumps, episodes)))
    assert_same(load(tmp_path / "b.jsonl"))


def test_lines_of_episodes_end_them_and_other_keys_are_left_alone(tmp_path):
    steps = {"action": [0] * 3, "reward": [1.0] * 3, "terminated": [False] * 3}
    lines = [
        {**steps, "observation": [3 * i, 3 * i + 1, 3 * i + 2], "episode": i, "env": "cart"}
        | ({"note": "odd"} if i == 1 else {})
        for i in range(3)
    ]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, lines)))
    data = load(tmp_path / "a.jsonl")
    assert data.n_episodes == 3
    for line in lines:
        del line["episode"]
    (tmp_path / "b.jsonl").write_text("\n".join(map(json.dumps, lines)))
    again = load(tmp_path / "b.jsonl")
    assert again.start.tolist() == data.start.tolist()
    assert again.observation.tolist() == [0, 1, 3, 4, 6, 7]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"reward": 1}\n', "no column 'observation'"),
        ('{"observation": 1, "action": 0, "reward": 1, "done": true}\n', "'done' does not say"),
        ("nonsense\n", "line 1: not JSON"),
        ('{"reward": 1}\n{"reward": 1, "action": 2}\n', "line 2: 'action' is in some lines"),
        ('{"reward": [1, 2], "action": [0]}\n', "action must be a list as long as the rewards"),
        ("[1]\n", "expected an object"),
        (
            '{"obs": 1, "action": 0, "reward": 1, "terminals": "False", "episode": 1}\n',
            "column terminals must hold true and false, or 1 and 0; got 'False'",
        ),
    ],
)
def test_bad_lines_are_named(tmp_path, text, says):
    (tmp_path / "a.jsonl").write_text(text)
    with pytest.raises(ValueError, match=says):
        load(tmp_path / "a.jsonl")


def test_bad_files_are_named(tmp_path):
    with pytest.raises(ValueError, match="no file"):
        load(tmp_path / "nothing.npz")
    (tmp_path / "a.xlsx").write_text("")
    with pytest.raises(ValueError, match="unknown kind of data file"):
        load(tmp_path / "a.xlsx")
    (tmp_path / "a.csv").write_text("")
    with pytest.raises(ValueError, match=r"a\.csv: not a table"):
        load(tmp_path / "a.csv")
    np.savez(tmp_path / "two.npz", **STEPS, obs=STEPS["observation"])
    with pytest.raises(ValueError, match="both observation and obs"):
        load(tmp_path / "two.npz")
    for name, content in (("empty", b""), ("torn", b"PK\x03\x04 and no more")):
        (tmp_path / f"{name}.npz").write_bytes(content)
        with pytest.raises(ValueError, match="not a NumPy archive of plain arrays"):
            load(tmp_path / f"{name}.npz")
    with (tmp_path / "single.npz").open("wb") as file:
        np.save(file, np.zeros(3))
    with pytest.raises(ValueError, match="not a NumPy archive of plain arrays"):
        load(tmp_path / "single.npz")
    (tmp_path / "bare.csv").write_text("observation,action,reward,terminated\n")
    with pytest.raises(ValueError, match="there are no steps"):
        load(tmp_path / "bare.csv")
    np.savez(tmp_path / "o.npz", observation=np.array([{}], dtype=object))
    with pytest.raises(ValueError, match="plain arrays"):
        load(tmp_path / "o.npz")
    np.savez(tmp_path / "n.npz", **STEPS | {"reward": [1.0, np.nan, 0.0]})
    with pytest.raises(ValueError, match=r"n\.npz: reward at step 1 is not finite"):
        load(tmp_path / "n.npz")
    pl.DataFrame({"reward": [1.0, None]}).write_parquet(tmp_path / "e.parquet")
    with pytest.raises(ValueError, match="reward has empty cells"):
        load(tmp_path / "e.parquet")


def test_unknown_sources_suggest(tmp_path):
    with pytest.raises(ValueError, match="unknown environment 'tmazze'"):
        resolve("tmazze")


def test_models_need_trust_and_are_checked(tmp_path):
    (tmp_path / "m.zip").write_bytes(b"")
    with pytest.raises(ValueError, match="--trust"):
        load_model(f"PPO:{tmp_path / 'm.zip'}", trust=False)
    with pytest.raises(ValueError, match=r"ALGO:file\.zip"):
        load_model("m.zip", trust=True)
    with pytest.raises(ValueError, match="no model file"):
        load_model("PPO:nothing.zip", trust=True)


def test_the_discount_comes_with_the_source(tmp_path):
    np.savez(tmp_path / "a.npz", **STEPS)
    assert experience(resolve(str(tmp_path / "a.npz")))[1] == 0.99
    tiger, uniform = resolve("tiger"), np.full((4, 3), 1 / 3)
    assert experience(tiger, steps=50, policy=uniform)[1] == pytest.approx(0.95)
    assert experience(tiger, steps=50, policy=uniform, gamma=0.5)[1] == 0.5


def test_minari_data_sets(tmp_path, monkeypatch):
    """What Minari recorded is what the environment did, ends and all."""
    minari = pytest.importorskip("minari")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    env = minari.DataCollector(gymnasium.make("CartPole-v1", max_episode_steps=15))
    steps = []
    for seed in range(6):
        env.action_space.seed(seed)
        observation, _ = env.reset(seed=seed)
        ended = False
        while not ended:
            action = env.action_space.sample()
            following, reward, over, cut, _ = env.step(action)
            steps.append((observation, action, reward, over, cut and not over, following))
            observation, ended = following, over or cut
    # Minari wishes for an author's address and such, and leaves its folder to the collector.
    with warnings.catch_warnings(action="ignore"):
        env.create_dataset(dataset_id="markovlens/cartpole-v0")
        env.close()
        del env
        gc.collect()
    data = resolve("minari:markovlens/cartpole-v0")
    expected = Trajectories(*(list(column) for column in zip(*steps, strict=True)))
    assert data.n_episodes == 6
    assert data.truncated.any()
    for name, value in expected.arrays().items():
        np.testing.assert_array_equal(getattr(data, name), value)
    with pytest.raises(ValueError, match="Minari cannot load"):
        resolve("minari:markovlens/nothing-v0")


def test_minari_observations_in_parts_and_episodes_without_an_end(monkeypatch):
    """Against a stand-in, for what no recorder writes: an episode that stops without saying so."""
    episode = SimpleNamespace(
        observations={"b": np.array([[1.0], [2.0], [3.0]]), "a": np.array([[7.0], [8.0], [9.0]])},
        actions=np.array([0, 1]),
        rewards=np.array([1.0, 2.0]),
        terminations=np.array([False, False]),
        truncations=np.array([False, False]),
    )
    dataset = SimpleNamespace(iterate_episodes=lambda: iter([episode, episode]))
    stand_in = SimpleNamespace(load_dataset=lambda name, download: dataset)
    monkeypatch.setitem(sys.modules, "minari", stand_in)
    data = resolve("minari:some/data-v0")
    assert data.length.tolist() == [2, 2]
    assert data.truncated.tolist() == [False, True, False, True]
    assert data.observation[:2].tolist() == [[7.0, 1.0], [8.0, 2.0]]
    assert data.next_observation[1].tolist() == [9.0, 3.0]


def test_episodes_written_in_turns_are_refused(tmp_path):
    steps = {
        "observation": [0, 5, 1, 6, 2, 7],
        "action": [0] * 6,
        "reward": [0.0] * 6,
        "terminated": [False] * 4 + [True] * 2,
        "episode": [7, 8, 7, 8, 7, 8],
    }
    pl.DataFrame(steps).write_csv(tmp_path / "a.csv")
    with pytest.raises(ValueError, match=r"episode 7 goes on at step 2, after .* sort the rows"):
        load(tmp_path / "a.csv")
    pl.DataFrame(steps).sort("episode", maintain_order=True).write_csv(tmp_path / "a.csv")
    assert load(tmp_path / "a.csv").observation.tolist() == [0, 1, 2, 5, 6, 7]


def test_numbers_of_episodes_may_begin_again_after_an_end(tmp_path):
    ends = {"terminated": [False, True] * 3, "episode": [0, 0, 1, 1, 0, 0]}
    steps = {"observation": [0, 1] * 3, "action": [0] * 6, "reward": [1.0] * 6} | ends
    np.savez(tmp_path / "a.npz", **steps)
    assert load(tmp_path / "a.npz").n_episodes == 3


def test_what_follows_an_end_may_be_left_open(tmp_path):
    text = " observation, action,reward,terminated,next_observation\n"
    (tmp_path / "a.csv").write_text(text + "0,0,1,false,3\n3,0,2,true,\n1,0,1,true,2\n")
    data = load(tmp_path / "a.csv")
    assert data.next_observation.tolist() == [3, 3, 2]
    assert data.next_observation.dtype.kind == "i"
    (tmp_path / "a.csv").write_text(text + "0,0,1,false,\n3,0,2,true,\n1,0,1,true,2\n")
    with pytest.raises(ValueError, match="next_observation at step 0 is not finite"):
        load(tmp_path / "a.csv")


@pytest.mark.parametrize("vector", [False, True])
def test_what_follows_an_end_may_be_null_in_json(tmp_path, vector):
    def seen(value: int) -> object:
        return [value, value + 1] if vector else value

    steps = [(0, False, 3), (3, True, None), (1, True, 2)]
    lines = [
        {
            "observation": seen(before),
            "action": 0,
            "reward": 1.0,
            "terminated": over,
            "next_observation": None if after is None else seen(after),
        }
        for before, over, after in steps
    ]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, lines)))
    data = load(tmp_path / "a.jsonl")
    assert data.next_observation.tolist() == [seen(3), seen(3), seen(2)]
    assert data.next_observation.dtype.kind == "i"
    lines[0]["next_observation"] = None
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, lines)))
    with pytest.raises(ValueError, match="next_observation at step 0 is not finite"):
        load(tmp_path / "a.jsonl")


def test_columns_that_do_not_fit_are_named(tmp_path):
    steps = {"observation": [0, 1], "action": [0, 0], "reward": [1.0, 1.0], "episode": [0, 1]}
    pl.DataFrame(steps | {"terminated": ["no", "yes"]}).write_csv(tmp_path / "a.csv")
    with pytest.raises(ValueError, match=r"column terminated must hold .* got 'no', 'yes'"):
        load(tmp_path / "a.csv")
    np.savez(tmp_path / "a.npz", **steps, terminated=["False", "True"])
    with pytest.raises(ValueError, match="got 'False', 'True'"):
        load(tmp_path / "a.npz")
    large = pl.DataFrame(steps | {"terminated": [False, True], "id": [2**63, 2**63 + 1]})
    large.write_csv(tmp_path / "a.csv")
    assert load(tmp_path / "a.csv").n_episodes == 1  # the first was cut before its outcome
    large.with_columns(observation="id").write_csv(tmp_path / "a.csv")
    with pytest.raises(ValueError, match="column observation holds whole numbers of 2⁶³ and more"):
        load(tmp_path / "a.csv")


def test_files_of_another_kind_are_named_as_such(tmp_path):
    (tmp_path / "log.json").write_text("{}")
    with pytest.raises(ValueError, match=r"unknown kind of data file '.json'"):
        resolve(tmp_path / "log.json")


def test_a_vector_of_environments_is_not_an_environment():
    with pytest.raises(ValueError, match="got a vector of them"):
        experience(gymnasium.make_vec("CartPole-v1", num_envs=2))


def test_our_environments_keep_their_discount_under_gymnasium():
    assert experience("markovlens/Tiger-v0", steps=50).gamma == experience("tiger", steps=50).gamma
