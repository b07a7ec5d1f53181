"""Cassandra's format: the grammar, both ways."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from markovlens.pomdp import library
from markovlens.pomdp.cassandra import format_pomdp, parse_pomdp, read_pomdp, write_pomdp
from markovlens.pomdp.cassandra.grammar import Parser
from markovlens.pomdp.cassandra.writer import writable_names
from markovlens.pomdp.model import Pomdp

HEAD = """
discount: 0.5
states: a b c
actions: go stay
observations: x y
"""
REST = """
T: stay identity
T: go uniform
O: * uniform
"""


def tables(text):
    return Parser(text, "test.POMDP").parse()


# Ways to say the same


@pytest.mark.parametrize(
    "rows",
    [
        "T: go\n0 0.5 0.5\n0 1 0\n1 0 0",
        "T: go 0 .5 5e-1 0 1. 0 1.0E+0 0 0",
        "T : go\n0 0.5 # half\n0.5 0 # and half\n1 0\n\n1 0 0",
        "T: go : a 0 0.5 0.5\nT: go : b\n0 1 0\nT: 0 : 2\n1 0 0",
        "T: go : a : b 0.5\nT: go : a : c 0.5 T:go:b:b 1\nT: go : c : a\n1.0",
        "T: * : a : b 0.5 T: * : 0 : 2 0.5\nT: go : 1 : 1 1 T: * : c : a +1",
        "T: go identity\nT: go : a : a 0 T: go : a : b .5 T: go : a : c .5\nT: go : c\n1 0 0",
        "T: go uniform\nT: go : * : * 0\nT: go : a 0 .5 .5 T: go : b : b 1 T: go : c : a 1",
        "# T: go\nT: # the matrix of\n go # is\n0 # zero\n.5 .5 0 1 0 1 0 0",
    ],
)
def test_transitions_can_be_written_in_many_ways(rows):
    T = tables(f"{HEAD} start: a O: * uniform {rows}\nT: stay identity").T
    np.testing.assert_array_equal(T[0], [[0, 0.5, 0.5], [0, 1, 0], [1, 0, 0]])
    np.testing.assert_array_equal(T[1], np.eye(3))


@pytest.mark.parametrize(
    ("start", "p0"),
    [
        ("", [1 / 3, 1 / 3, 1 / 3]),
        ("start: uniform", [1 / 3, 1 / 3, 1 / 3]),
        ("start: 0.2 0.3\n 0.5", [0.2, 0.3, 0.5]),
        ("start: 0 1 0", [0, 1, 0]),
        ("start: b", [0, 1, 0]),
        ("start: 2", [0, 0, 1]),
        ("start include: a c", [0.5, 0, 0.5]),
        ("start include: 1", [0, 1, 0]),
        ("start exclude: a", [0, 0.5, 0.5]),
        ("start exclude: 0 b", [0, 0, 1]),
        ("start: # first\n b", [0, 1, 0]),
    ],
)
@pytest.mark.parametrize("before", [True, False])
def test_the_start_can_be_written_in_many_ways_and_places(start, p0, before):
    text = f"{HEAD}\n{start}\n{REST}" if before else f"{HEAD}{REST}\n{start}\n"
    np.testing.assert_allclose(tables(text).p0, p0, rtol=0, atol=1e-15)


def test_one_state_starts_there():
    for start in ("start: 1.0", "start: 1", "start: 0", "start: s0", "start: uniform"):
        text = f"discount: 0 states: 1 actions: 1 observations: 1 {start} T: * identity O: * 1"
        assert tables(text).p0.tolist() == [1.0]


def test_reset_leads_to_the_start_wherever_that_is_given():
    for text in (
        f"{HEAD} start: 0.2 0.3 0.5 {REST} T: stay : b reset",
        f"{HEAD} {REST} T: stay : b\nreset start: 0.2 0.3 0.5",
        f"{HEAD} {REST} T: stay reset T: stay : a 1 0 0 T: stay : c 0 0 1 start: 0.2 0.3 0.5",
    ):
        expected = [[1, 0, 0], [0.2, 0.3, 0.5], [0, 0, 1]]
        np.testing.assert_array_equal(tables(text).T[1], expected)


def test_observations_by_matrix_row_and_entry():
    model = tables(
        f"{HEAD} T: * identity O: go 1 0 0 1 .5 .5 O: stay : * uniform O: stay : b : x 1 "
        "O: stay : b : y 0 O: stay : 2\n0.25 0.75"
    )
    np.testing.assert_array_equal(model.O[0], [[1, 0], [0, 1], [0.5, 0.5]])
    np.testing.assert_array_equal(model.O[1], [[0.5, 0.5], [1, 0], [0.25, 0.75]])


def test_later_entries_override_earlier_ones_and_zero_counts():
    model = tables(
        f"{HEAD} {REST} O: go : a 1 0 O: * : a 0 1 "
        "R: * : * : * : * 5 R: go : * : * : * 7 R: * : b : * : * 0 R: go : c : * : * 1 "
        "R: go : c : * : * 2"
    )
    np.testing.assert_array_equal(model.O[:, 0], [[0, 1], [0, 1]])
    np.testing.assert_array_equal(model.R, [[7, 5], [0, 0], [2, 5]])


def test_rewards_with_all_four_levels_against_a_plain_loop():
    """The same assignments to a dense R[a, s, s', o], averaged by the definition."""
    model = tables(
        f"{HEAD} T: go .5 .25 .25 0 .5 .5 1 0 0 T: stay uniform O: go .25 .75 1 0 .5 .5 "
        "O: stay uniform R: * : * : * : * -1 R: go : a\n1 2 3 4 5 6 R: stay : * : c 8 9 "
        "R: * : b : * : y 0.5 R: go : a : b : x 10 R: stay : 1 : 2 : 1 -4 R: * : c : * : * 0"
    )
    R = np.full((2, 3, 3, 2), -1.0)
    R[0, 0] = [[1, 2], [3, 4], [5, 6]]
    R[1, :, 2] = [8, 9]
    R[:, 1, :, 1] = 0.5
    R[0, 0, 1, 0] = 10
    R[1, 1, 2, 1] = -4
    R[:, 2] = 0
    expected = np.einsum("ast,ato,asto->sa", model.T, model.O, R)
    np.testing.assert_allclose(model.R, expected, rtol=1e-14, atol=1e-14)


writes = st.lists(
    st.tuples(*(st.integers(-1, n - 1) for n in (2, 3, 3, 2)), st.integers(-9, 9)), max_size=12
)


@given(writes=writes, comments=st.booleans())
@settings(max_examples=60)
def test_any_sequence_of_reward_entries_means_assignment_in_order(writes, comments):
    R = np.zeros((2, 3, 3, 2))
    lines = []
    for *index, value in writes:
        R[tuple(slice(None) if i < 0 else i for i in index)] = value
        named = " : ".join("*" if i < 0 else str(i) for i in index)
        lines.append(f"R: {named} {value}" + (" # so" if comments else ""))
    model = tables(
        HEAD + "T: go uniform T: stay identity O: * .25 .75 1 0 .5 .5\n" + "\n".join(lines)
    )
    expected = np.einsum("ast,ato,asto->sa", model.T, model.O, R)
    np.testing.assert_allclose(model.R, expected, rtol=1e-13, atol=1e-13)


def test_costs_are_negative_rewards():
    text = HEAD + REST + "R: * : a : * : * 3"
    assert tables(text).R[0].tolist() == [3, 3]
    assert tables("values: cost" + text).R[0].tolist() == [-3, -3]
    assert tables("values: reward" + text).R[0].tolist() == [3, 3]


def test_counts_give_numbered_names():
    pomdp = parse_pomdp(
        "discount: 1e-1 states: 2 actions: 1 observations: 3 T:0 uniform O:0 uniform"
    )
    assert pomdp.states == ("s0", "s1")
    assert pomdp.actions == ("a0",)
    assert pomdp.observations == ("o0", "o1", "o2")
    assert float(pomdp.gamma) == 0.1


def test_the_preamble_comes_in_any_order():
    text = (
        "observations: t o\nactions: begin\nstates:\n r # one\n value # two\n"
        "start include: value\ndiscount: 0.25 T: begin : * : r 1 O: * : * : o 1"
    )
    pomdp = parse_pomdp(text)
    assert pomdp.states == ("r", "value")
    assert pomdp.observations == ("t", "o")
    assert np.asarray(pomdp.p0).tolist() == [0, 1]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("states: a b\nstart uniform\nactions: x", "2:1: got 'start'"),
        ("observations: p q\nT x identity\nT: * uniform", "2:1: got 'T'"),
    ],
)
def test_a_forgotten_colon_does_not_make_names_of_a_statement(text, place):
    with pytest.raises(ValueError, match=f"{place}, expected the name .* ':' missing"):
        parse_pomdp(text)


def test_rows_nearly_one_are_normalised():
    T = tables(f"{HEAD} {REST} T: go : a 0.333333 0.333333 0.333333").T
    assert T[0, 0].sum() == pytest.approx(1.0, abs=1e-15)


def test_an_end_pays_nothing_from_the_moment_it_is_entered():
    text = f"{HEAD} T: * : a : b 1 T: * : b : b 1 T: go : c : b 1 T: stay : c : c 1 O: * uniform "
    with pytest.warns(UserWarning, match="state 'b' is never left: the end of an episode"):
        pomdp = parse_pomdp(text + "R: * : * : * : * 2")
    assert np.asarray(pomdp.R).tolist() == [[2, 2], [0, 0], [2, 2]]
    assert np.asarray(pomdp.terminal).tolist() == [False, True, False]


def test_an_end_pays_nothing_also_where_the_file_pays_for_one_action_only():
    """As in a Tiger file that goes round: listening costs 1 also after the door is open."""
    text = f"{HEAD} T: * : * : b 1 O: * uniform R: go : * : * : * 2"
    with pytest.warns(UserWarning, match=r"build the model with markovlens\.Pomdp"):
        pomdp = parse_pomdp(text)
    assert np.asarray(pomdp.R).tolist() == [[2, 0], [0, 0], [2, 0]]
    assert np.asarray(pomdp.terminal).tolist() == [False, True, False]


def test_a_state_that_is_never_entered_may_stay_and_pay():
    text = "discount: .9 states: 1 actions: 2 observations: 1 T: * identity O: * uniform"
    pomdp = parse_pomdp(text + " R: 1 : * : * : * 3")
    assert np.asarray(pomdp.R).tolist() == [[0, 3]]


def test_windows_lines_old_encodings_and_byte_order_marks(tmp_path):
    text = (HEAD + "# naïve\n" + REST).replace("\n", "\r\n")
    path = tmp_path / "old.POMDP"
    for data in (text.encode("utf-8-sig"), text.encode("latin-1")):
        path.write_bytes(data)
        assert read_pomdp(path).states == ("a", "b", "c")


# Errors


# What is wrong, and what is said: after the preamble, after a whole model, and on its own.
AFTER_HEAD = {
    "T: go\n1 0 0\n0 0.5 0.4\n0 0 1": r"8:1: T of action 'go' in state 'b' sums to 0\.9",
    "T: go identity": r"6:15: T of action 'stay' in state 'a' is never given",
    "T: go\n1 0 0\n0 -1 2 0 0 1": r"8:3: got '-1', expected a probability between 0 and 1",
    "T: go : a : b 1.5": r"6:15: got '1\.5', expected a probability",
    "T: go : a : d 0.5": r"6:13: got 'd', expected one of the states \(a, b, c\), its num",
    "T: go : 3 : b 0.5": r"6:9: got '3', expected one of the states .*\(0 to 2\), or \*",
    "O: fly uniform": r"6:4: got 'fly', expected one of the actions \(go, stay\)",
    "O: go : a : z 1": r"6:13: got 'z', expected one of the observations \(x, y\)",
    "T: go\n1 0 0 0 1 0 0 0": r"7:16: got the end of the text, expected a number \(8 of 9",
    "T: go\n1 0 0 0 1 0 0 0 1 0": r"7:19: got '0', expected one of discount:",
    "T: go\n1 0 0 0 1 O 0 0 1": r"7:11: got 'O', expected a number \(5 of 9 read so far",
    "T: go\n1 0 0 0 1 0 0 0 1e": r"7:17: got '1e', expected a number",
    "T: go\nidentical": r"7:1: got 'identical', expected 3 rows of 3 transition",
    "T: go : a\nident": r"7:1: got 'ident', expected 3 transition probabilities, or 'un",
    "O: go identity": r"6:7: got 'identity', expected 3 rows of 2 observation prob",
    "O: go : a reset": r"6:11: got 'reset', expected 2 observation probabilities, or 'u",
    "R: go : a : b : x": r"6:18: got the end of the text, expected a number \(0 of 1",
    "R: go 1": r"6:7: got '1', expected ':' and then one of the states",
    "Q: go": r"6:1: got 'Q', expected one of discount:, values:, states:",
    "start: 0.5 0.4 0": r"6:8: the start probabilities sum to 0\.9, expected 1",
    "start: 0.5 0.6 -0.1": r"6:16: got '-0\.1', expected a probability",
    "start: d": r"6:8: got 'd', expected one of the states",
    "start exclude: a b c": r"6:16: got 'a', expected states to exclude that leave one",
    "start include:\nT: go uniform": r"7:1: got 'T', expected states to include",
    "states: 4": r"6:7: states are declared a second time",
}
AFTER_REST = {
    "T: go : c : a 0.5": r"10:4: T of action 'go' in state 'c' sums to 1\.16667",
    "O: stay : b\n 0.5 0.6": r"11:2: O of action 'stay' leading to state 'b' sum",
    "O: stay : b\n 0 0": r"11:2: O of action 'stay' .* sums to 0, expected 1",
    "start with: a": r"10:7: got 'with', expected ':', 'include:' or 'exclude:'",
}
ALONE = {
    "states: a b a": r"1:13: got 'a', expected states that differ",
    "states: a 1": r"1:11: got '1', expected the name of one of the states",
    "states: 0": r"1:9: got '0', expected at least 1 of the states",
    "states: actions: a": r"1:9: got 'actions', expected the number of states, or their names",
    "states: 2 T: go identity": r"1:11: got 'T', expected 'actions:' first",
    "start: uniform": r"1:6: got ':', expected 'states:' before 'start'",
    "discount: 1.5": r"1:11: got '1\.5', expected a discount in \[0, 1\]",
    "discount 0.5": r"1:10: got '0\.5', expected ':' after discount",
    "values: money": r"1:9: got 'money', expected 'reward' or 'cost'",
    HEAD[14:] + REST: r"got the end of the text, expected 'discount:'",
    "": r"1:1: got the end of the text, expected 'states:' first",
}
MISTAKES = {
    **{HEAD + text: message for text, message in AFTER_HEAD.items()},
    **{HEAD + REST + text: message for text, message in AFTER_REST.items()},
    **ALONE,
}


@pytest.mark.parametrize(("text", "message"), MISTAKES.items())
def test_errors_say_where_what_and_what_instead(text, message):
    with pytest.raises(ValueError, match=rf"^test\.POMDP:(\d+:\d+: )?{message}"):
        parse_pomdp(text, name="test.POMDP")


def test_a_discount_of_one_that_never_ends_is_an_error_of_the_file():
    with pytest.raises(ValueError, match=r"^x\.POMDP: gamma = 1 needs every policy to end"):
        parse_pomdp((HEAD + REST).replace("0.5", "1"), name="x.POMDP")


@given(st.text(alphabet="TOR:* \n#abx01.-e", max_size=40))
@settings(max_examples=200)
def test_whatever_the_text_the_error_has_a_place(text):
    with pytest.raises(ValueError, match=r"^t:\d+:\d+: "):
        parse_pomdp(HEAD + text + " :", name="t")


# There and back


@st.composite
def pomdps(draw):
    states, actions, observations = (draw(st.integers(1, n)) for n in (6, 3, 4))
    seed = draw(st.integers(0, 10**6))
    terminal = draw(st.booleans()) and min(states, observations) > 1
    pomdp = library.random_pomdp(
        seed,
        states,
        actions,
        observations,
        gamma=draw(st.floats(0.0, 0.999)),
        deterministic_observations=draw(st.booleans()),
        terminal=terminal,
        successors=draw(st.integers(1, states - terminal)),
    )
    return pomdp


def assert_same(one, other):
    for name in ("T", "R", "Phi", "p0", "gamma"):
        ours, theirs = np.asarray(getattr(one, name)), np.asarray(getattr(other, name))
        np.testing.assert_array_equal(ours, theirs, err_msg=name)
    assert one.states == other.states
    assert one.actions == other.actions
    assert one.observations == other.observations


@given(pomdps())
@settings(max_examples=60)
@pytest.mark.filterwarnings("ignore:.*is left out")
def test_reading_undoes_writing_to_the_last_bit(pomdp):
    """But for rewards in a state that is entered and never left: the end."""
    T, R = np.asarray(pomdp.T), np.array(pomdp.R)
    for s in range(pomdp.n_states):
        entered = (np.delete(T[:, :, s], s, axis=1) > 0).any()
        if entered and (T[:, s, s] > 1 - 1e-12).all():
            R[s] = 0.0
    names = pomdp.states, pomdp.actions, pomdp.observations
    expected = Pomdp(T, R, np.asarray(pomdp.Phi), np.asarray(pomdp.p0), pomdp.gamma, *names)
    assert_same(parse_pomdp(format_pomdp(pomdp)), expected)


@pytest.mark.parametrize("name", library.names())
def test_the_library_survives_a_file(name, tmp_path):
    pomdp = library.load(name)
    write_pomdp(pomdp, tmp_path / "model.POMDP")
    assert_same(read_pomdp(tmp_path / "model.POMDP"), pomdp)


@given(st.lists(st.text(max_size=6), min_size=1, max_size=8, unique=True))
@settings(max_examples=50)
def test_names_that_the_format_forbids_are_changed_apart_and_noted(names):
    new = writable_names(names)
    assert len(set(new)) == len(names)
    n = len(names)
    pomdp = Pomdp(np.eye(n)[None], np.zeros((n, 1)), np.eye(n), np.eye(n)[0], 0.9, states=names)
    assert parse_pomdp(format_pomdp(pomdp)).states == tuple(new)


def test_written_files_are_for_people():
    text = format_pomdp(library.tiger())
    assert "T: open-left : tiger-left-heard : end 1.0" in text
    assert "O: * : tiger-right-heard : hear-right 0.85" in text
    assert "R: listen : tiger-left-initial : * : * -1.0" in text
    kept = Pomdp(np.eye(2)[None], np.zeros((2, 1)), np.eye(2), [1, 0], 0.5, states=["a b", "c"])
    assert "# state a-b is 'a b'" in format_pomdp(kept)
    assert "T: a0\nidentity" in format_pomdp(kept)


@pytest.mark.slow
def test_a_large_file_of_entries_and_one_of_matrices_say_the_same():
    rng = np.random.default_rng(0)
    n = 250
    rows = rng.dirichlet(np.full(n, 0.05), n).round(6)
    rows[np.arange(n), rows.argmax(axis=1)] += 1.0 - rows.sum(axis=1)
    head = f"discount: 0.9 states: {n} actions: 2 observations: 2\nO: * uniform\nT: 1 identity\n"
    matrix = "T: 0\n" + "\n".join(" ".join(f"{x:.6f}" for x in row) for row in rows)
    entries = "\n".join(
        f"T: 0 : {i} : {j} {rows[i, j]:.6f}" for i in range(n) for j in rng.permutation(n)
    )
    paid = "\n".join(f"R: * : {i} : {(i + 1) % n} : {i % 2} {i}" for i in range(n))
    one, other = tables(head + matrix + "\n" + paid), tables(head + entries + "\n" + paid)
    np.testing.assert_array_equal(one.T, other.T)
    np.testing.assert_array_equal(one.R, other.R)
    i = np.arange(n)
    np.testing.assert_allclose(one.R[:, 0], one.T[0, i, (i + 1) % n] * 0.5 * i, atol=1e-12)


def test_memory_grows_with_the_text_and_the_model_not_with_the_table_of_rewards():
    """R[a, s, s', o] of 200 states and 100 observations would take 32 MB, T takes 0.3 MB."""
    n = 200
    lines = [f"T: 0 : {s} : {(s + 1) % n} 1\nR: 0 : {s} : {(s + 1) % n} : * {s}" for s in range(n)]
    head = f"discount: 0.9 states: {n} actions: 1 observations: 100 O: * uniform\n"
    text = head + "\n".join(lines)
    tables(text)
    tracemalloc.start()
    R = tables(text).R
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert R[:, 0].tolist() == list(range(n))
    assert peak < 3e6
