"""The report page: what is in it, and that it works in a browser where there is one."""

import base64
import io
import json
import re
import shutil
import subprocess
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from PIL import Image

from markovlens.agents.config import PPOConfig, RunSpec
from markovlens.agents.folder import RunFolder
from markovlens.agents.training import train, train_together
from markovlens.experiments.config import STAGES
from markovlens.experiments.episode import PANEL_SIZE
from markovlens.experiments.report import page_data, render, write_report
from markovlens.experiments.results import Results
from markovlens.experiments.sources import gather
from markovlens.experiments.sweep import keep_experiment
from markovlens.files import write_parquet
from tests.experiments.test_figures import rows
from tests.experiments.test_units import fake_metrics

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run "
    "--disable-background-networking --disable-component-update --disable-sync "
    "--virtual-time-budget=20000 --dump-dom"
)

NOTHING_MORE = {"episodes": [], "pictures": [], "budgets": []}


def curves():
    """ld climbs to 10, rnn to 5."""
    tables = [
        rows("rocksample-11-11", agent, seed, [None, *np.linspace(0, end, 30) + 0.1 * seed])
        for agent, end in (("ld", 10.0), ("rnn", 5.0))
        for seed in range(3)
    ]
    return pl.concat(tables)


def data_in(page):
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    return json.loads(found[1])


def test_the_page_has_the_numbers():
    data = data_in(render("A <title>", page_data(curves()) | NOTHING_MORE))
    assert [agent["name"] for agent in data["agents"]] == ["ld", "rnn"]
    (task,) = data["tasks"]
    assert task["label"] == "RockSample (11, 11)"
    line = task["curves"]["return"]["ld"]
    assert line["mean"][0] is None  # no episode had ended yet
    assert line["mean"][-1] == pytest.approx(10.1)
    assert len(line["seeds"]) == 3
    assert line["steps"][-1] == 31000
    ld, rnn = task["finals"]
    assert ld["mean"] > rnn["high"]
    assert "helps" in data["summary"][1]


def test_the_page_needs_nothing_from_outside():
    page = render("A <title>", page_data(curves()) | NOTHING_MORE)
    assert "<title>A &lt;title&gt;</title>" in page
    assert "{{" not in page
    outside = set(re.findall(r"https?://[^\"'\s]+", page)) - {"http://www.w3.org/2000/svg"}
    assert not outside
    assert not re.search(r"<(script|link|img)[^>]+(src|href)=\"(?!data:)", page)


def test_text_cannot_break_out_of_the_page():
    table = curves().filter(agent="ld").with_columns(pl.lit("</script><b>").alias("agent"))
    page = render("x", page_data(table) | NOTHING_MORE)
    assert data_in(page)["agents"][0]["name"] == "</script><b>"


def test_a_title_may_look_like_a_part_of_the_page():
    page = render("{{title}} {{data}}", page_data(curves()) | NOTHING_MORE)
    assert "<title>{{title}} {{data}}</title>" in page
    assert data_in(page)["agents"]


def test_a_page_has_two_scripts_whatever_it_tells_of():
    table = curves().filter(agent="ld").with_columns(pl.lit("</script><b>").alias("agent"))
    more = {"budgets": [{"agent": "</script>"}]}
    page = render("</script>", page_data(table) | NOTHING_MORE | more)
    assert page.count("</script>") == 2  # the numbers', and the page's own


def test_a_sweep_with_a_diverged_run_has_a_page(tmp_path):
    """Its setting has no score to judge a budget by."""
    file = tmp_path / "tiny.toml"
    file.write_text(
        'title = "tiny"\nseeds.sweep = 2\ntasks.tmaze-2 = {}\nagents.ld.grid.beta = [0.0, 0.5]\n'
    )
    keep_experiment(file, None, tmp_path / "results")
    experiment = Results(tmp_path / "results").experiment
    swept = [
        rows("tmaze-2", "ld", seed, [1.0, 2.0], "sweep", setting.options, diverged=seed == 1)
        for setting in experiment.candidates()
        for seed in (0, 1)
    ]
    write_parquet(tmp_path / "results" / "curves.parquet", pl.concat(swept))
    page = write_report([tmp_path / "results"], tmp_path / "page.html")
    budgets = data_in(page.path.read_text())["budgets"]
    assert [(row["settings"], row["area"], row["seeds"]) for row in budgets] == [(2, None, 2)]


def test_a_setting_may_be_infinite():
    table = rows("tiger", "ld", 0, [1.0], options={"max_gradient_norm": float("inf")})
    (settings,) = data_in(render("x", page_data(table) | NOTHING_MORE))["settings"]
    assert settings["max_gradient_norm"] == "inf"


def test_settings_that_nobody_set_are_shown_too():
    table = rows("pocman", "ld", 0, [1.0], options={"env": "pocman", "algo": "ld", "beta": 0.0})
    (settings,) = page_data(table)["settings"]
    assert (settings["beta"], settings["learning_rate"], settings["latent"]) == (0.0, 2.5e-4, 512)
    assert "hide" not in settings


def test_settings_say_the_algorithm_and_only_what_it_has():
    table = pl.concat(
        [
            rows("tiger", "rnn", 0, [1.0], options={"env": "tiger", "algo": "rnn"}),
            rows("tiger", "bound", 0, [1.0], options={"env": "tiger", "algo": "memoryless"}),
        ]
    )
    bound, rnn = page_data(table)["settings"]
    assert (bound["agent"], bound["algo"], bound["cell"]) == ("bound", "memoryless", None)
    assert (rnn["algo"], rnn["cell"]) == ("rnn", "gru")


def test_settings_of_one_agent_are_told_apart(tmp_path):
    two = pl.concat(
        [rows("tiger", "ld", 0, [1.0, 2.0], options={"beta": beta}) for beta in (0.25, 0.5)]
    )
    write_parquet(tmp_path / "two.parquet", two)
    names = {"ld (beta 0.25)", "ld (beta 0.5)"}
    assert set(Results(tmp_path / "two.parquet").reported["agent"]) == names
    assert set(gather([tmp_path / "two.parquet"]).curves["agent"]) == names


def test_before_a_report_the_sweeps_best_setting_is_shown(tmp_path):
    swept = [
        rows("tiger", "ld", seed, [v, v], "sweep", {"beta": beta})
        for beta, v in ((0.25, 1.0), (0.5, 2.0))
        for seed in (0, 1)
    ]
    write_parquet(tmp_path / "swept.parquet", pl.concat(swept))
    results = Results(tmp_path / "swept.parquet")
    assert results.reported["options"].unique().to_list() == ['{"beta": 0.5}']
    assert sorted(results.reported["seed"].unique()) == [0, 1]
    assert results.shows == "sweep"
    said = "Tiger: the sweep's best settings on the seeds that chose them, not on fresh ones."
    assert said in page_data(results.reported)["summary"]


def test_nothing_is_said_of_the_sweep_once_there_is_a_report(tmp_path):
    both = [rows("tiger", "ld", seed, [1.0], stage) for seed, stage in enumerate(STAGES)]
    write_parquet(tmp_path / "both.parquet", pl.concat(both))
    results = Results(tmp_path / "both.parquet")
    assert results.shows == "report"
    assert page_data(results.reported)["summary"] == ["1 run on 1 task."]


def test_a_run_folder_says_which_of_its_runs_diverged(tmp_path):
    tame = PPOConfig(env="tmaze-2", algo="rnn", steps=256, n_steps=16, latent=8)
    wild = replace(tame, learning_rate=1e30, max_gradient_norm=1e30)
    train_together([(tame, 0), (wild, 1)], out=tmp_path / "both")
    curves = gather([tmp_path / "both"]).curves
    diverged = {row["seed"]: row["diverged"] for row in curves.iter_rows(named=True)}
    assert diverged == {0: False, 1: True}


def test_nothing_to_report(tmp_path):
    with pytest.raises(ValueError, match="nothing to report"):
        gather([])
    with pytest.raises(FileNotFoundError, match="no results at"):
        gather([tmp_path / "nowhere"])
    with pytest.raises(ValueError, match="no finished runs yet"):
        gather([tmp_path])


PRESS_EVERYTHING = """
<script>{
const said = { errors: window.errors };
const all = (selector) => [...document.querySelectorAll(selector)];
const means = () => all("#charts path.mean").length;
said.numbers = [2e5, 1.5e6, -3e7, 12345, 0.25, 100].map(short);
said.ticks = [12000, 4000, 2.5e6].map((high) => ticks(0, high, 3).map(([, text]) => text));
said.labels = all("#charts svg .label, #discrepancy-charts svg .label").map((t) => t.textContent);
const right = (node) => node.getBoundingClientRect().right;
const label = (t) => [getComputedStyle(t).fontSize, right(t) <= right(t.ownerSVGElement)];
said.finalLabels = all("#final-charts text.name, #final-charts text.spread").map(label);
said.charts = all("#charts .card svg").length;
said.fit = all(".card svg").every((svg) => {
  const room = svg.parentElement.clientWidth - svg.viewBox.baseVal.width;
  return room >= 0 && room < 40;
});
said.lines = means();
said.discrepancy = all("#discrepancy-charts path.mean").length;
said.finals = all("#final-charts circle").length;
const agent = document.querySelector("#agents button");
agent.click(); said.hidden = means(); agent.click(); said.back = means();
const drawn = () => document.querySelector("#charts path.mean").getAttribute("d");
const before = drawn();
all("#metrics button")[1].click(); said.metricChanges = drawn() !== before;
document.getElementById("single").click(); said.seeds = all("#charts path").length;
const svg = document.querySelector("#charts svg"), box = svg.getBoundingClientRect();
const at = { clientX: box.left + box.width / 2, clientY: box.top + 9, bubbles: true };
svg.dispatchEvent(new PointerEvent("pointermove", at));
said.tip = document.querySelector("#charts .tip").textContent;
const frame = () => document.getElementById("frame").src;
const clock = () => document.getElementById("clock").textContent;
said.start = [clock(), all("#odds .odd").length, frame().slice(0, 23)];
const panel = document.getElementById("panel");
said.panel = [panel.offsetWidth, panel.offsetHeight, panel.src === frame()];
const first = frame();
document.getElementById("next").click(); said.next = [clock(), frame() !== first];
document.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowLeft", bubbles: true }));
said.key = clock();
document.getElementById("theme").click();
said.theme = document.documentElement.dataset.theme;
said.paper = getComputedStyle(document.body).backgroundColor;
said.overflow = document.documentElement.scrollWidth > innerWidth;
document.getElementById("play").click();
setTimeout(() => {
  said.played = clock();
  const out = document.createElement("pre");
  out.id = "said";
  out.textContent = JSON.stringify(said);
  document.body.append(out);
}, 1500);
}</script></body>"""

CATCH_ERRORS = """<head><script>
window.errors = [];
window.onerror = (message) => { errors.push(String(message)); };
console.error = console.warn = (...said) => { errors.push(said.join(" ")); };
</script>"""


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    config = PPOConfig(env="tmaze-2", algo="ld", steps=2048, latent=8)
    train(config, seeds=[0, 1], out=folder / "ld")
    others = [rows(task, "rnn", i, [1.0, 2.0]) for task in ("tmaze-2", "tmaze-5") for i in (0, 1)]
    one_critic = pl.concat(others).with_columns(pl.lit(None, pl.Float64).alias("discrepancy"))
    write_parquet(folder / "rnn.parquet", one_critic)
    sources = [folder / "ld", folder / "rnn.parquet"]
    written = write_report(sources, folder / "report.html", max_steps=12)
    assert (written.n_runs, written.n_episodes) == (6, 1)
    return written.path


@pytest.mark.slow
def test_run_folders_become_a_page_with_episodes(page):
    data = data_in(page.read_text())
    (ld,) = data["episodes"]
    assert ld["label"].startswith("T-maze (2): λ-discrepancy (LD), seed 0, ")
    assert ld["actions"] == ["up", "down", "right", "left"]
    assert ld["critics"] == ["critic 1 (λ = 0.95)", "critic 2 (λ = 0.1)"]
    assert len(ld["moments"][0]["values"]) == 2
    for moment in ld["moments"][:-1]:
        assert sum(moment["probs"]) == pytest.approx(1.0, abs=1e-3)
        assert 0 <= moment["action"] < 4
    assert ld["moments"][-1]["probs"] is None
    assert all(frame.startswith("data:image/webp;base64,") for frame in ld["frames"])
    first = Image.open(io.BytesIO(base64.b64decode(ld["frames"][0].partition(",")[2])))
    assert ld["size"] == {"frame": list(first.size), "panel": list(PANEL_SIZE)}


@pytest.mark.slow
@pytest.mark.skipif(BROWSER is None, reason="there is no Chromium on this machine")
@pytest.mark.parametrize("width", [390, 1280])
def test_the_page_works_in_a_browser(page, width, tmp_path):
    text = page.read_text()
    text = text.replace("<head>", CATCH_ERRORS, 1).replace("</body>", PRESS_EVERYTHING, 1)
    (tmp_path / "inner.html").write_text(text)
    # A window cannot be as narrow as a phone; a frame in it can.
    outer = (
        f'<iframe src="inner.html" style="width:{width}px;height:900px"></iframe><script>'
        "setTimeout(() => { document.body.append(frames[0].document.getElementById('said')) }, 9e3)"
        "</script>"
    )
    (tmp_path / "outer.html").write_text(outer)
    command = [BROWSER, *FLAGS.split(), "--allow-file-access-from-files"]
    command += [f"--user-data-dir={tmp_path / 'profile'}", f"file://{tmp_path / 'outer.html'}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    said = json.loads(re.search(r'<pre id="said">(.*?)</pre>', done.stdout, re.DOTALL)[1])
    assert said["errors"] == []
    assert said["numbers"] == ["200k", "1.5M", "-30M", "12.3k", "0.25", "100"]
    assert said["ticks"] == [
        ["0", "5k", "10k"],
        ["0", "2000", "4000"],
        ["0", "1M", "2M"],
    ]
    assert said["labels"] == ["environment steps"] * 3
    assert said["finalLabels"] == [["14px", True]] * 6
    assert (said["charts"], said["lines"], said["discrepancy"]) == (2, 3, 1)
    assert said["fit"]  # each is as wide as its card, also where two stand side by side
    assert said["finals"] == 6 + 3  # a dot for each seed, and each mean
    assert (said["hidden"], said["back"]) == (2, 3)
    assert said["metricChanges"]
    assert said["seeds"] == 6 + 3
    assert "steps" in said["tip"]
    clock, odds, frame = said["start"]
    assert clock.startswith("0 / ")
    assert (odds, frame) == (4, "data:image/webp;base64,")
    # On a phone the frame's panel stands below the game, in its own size.
    assert said["panel"] == [*(PANEL_SIZE if width < 640 else (0, 0)), True]
    assert said["next"][0].startswith("1 / ")
    assert said["key"] == clock
    assert said["theme"] == "dark"
    assert said["paper"] == "rgb(16, 18, 23)"
    assert not said["overflow"]
    assert not said["played"].startswith("0 / ")


def test_runs_that_see_differently_are_told_apart(tmp_path):
    for name, hide in (("full", ()), ("blind", (1,))):
        folder = RunFolder(tmp_path / name)
        config = PPOConfig(env="tmaze-2", algo="rnn", steps=2048, hide=hide).resolve()
        with folder.locked():
            folder.claim([RunSpec(config, 0)])
        folder.write_metrics(fake_metrics([None], lambda _: 1.0))
    shown = gather([tmp_path / "full", tmp_path / "blind"]).curves
    assert set(shown["agent"]) == {"rnn (hide [])", "rnn (hide [1])"}
