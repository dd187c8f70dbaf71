"""Prometheus metrics: a running search exports them, and the Grafana dashboard asks for what is exported."""

import json
import re
import socket
from pathlib import Path
from types import SimpleNamespace
from urllib.error import URLError
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families

from detol import cli, run
from detol.config import Settings
from detol.errors import UsageError
from detol.graph.ops import op
from detol.graph.topology import chain
from detol.metrics import Metrics, Picture
from detol.search.records import Candidate, Origin, State, Trial
from detol.search.tally import Tally
from detol.spaces.decisions import Decisions
from detol.watch import Quiet

DASHBOARD = Path(__file__).parents[1] / "dashboards" / "grafana" / "detol.json"


def scrape(url):
    with urlopen(url, timeout=10) as answer:
        text = answer.read().decode()
    return {sample.name: sample.value for family in text_string_to_metric_families(text) for sample in family.samples}


def free_port():
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        return made.getsockname()[1]


class Scraper(Quiet):
    """Reads the metrics while the search runs, as Prometheus would."""

    def __init__(self, url):
        self.url, self.seen, self.told = url, [], []

    def __call__(self, search):
        self.seen.append((scrape(self.url), search.tally.trained, len(search.running)))

    def say(self, text):
        self.told.append(text)


def test_a_running_search_exports_its_counts(tmp_path):
    port = free_port()
    settings = Settings(
        data="digits", space="tiny", strategy="random", stop="none", trials=3, epochs=1, name="scraped",
        tracking="off", executor="inline", references=False, db=str(tmp_path / "r.db"), metrics=str(port),
    )  # fmt: skip
    scraper = Scraper(f"http://127.0.0.1:{port}/metrics")
    result = run.search(settings, scraper)
    assert scraper.told[0] == f"metrics: {scraper.url}"
    for found, trained, running in scraper.seen:
        assert found["detol_trials_trained_total"] == trained
        assert found["detol_trials_running"] == found["detol_ranks_busy"] == running
        assert found["detol_trials_limit"] == 3
    last = scraper.seen[-1][0]
    assert last["detol_trials"] == 3
    assert last["detol_epochs_trained_total"] == 3
    assert last["detol_best_value"] == pytest.approx(result.best.score)
    assert last["detol_process_resident_memory_bytes"] > 0
    with pytest.raises(URLError):  # the port is given back
        scrape(scraper.url)


def test_names_are_quoted():
    name = 'odd "name"\\ {x="y"}\n'
    with Metrics("0") as metrics:
        metrics.keep(Picture(name=name, best=0.5))
        with urlopen(metrics.url, timeout=10) as answer:
            families = list(text_string_to_metric_families(answer.read().decode()))
    labels = {s.labels["search"] for family in families for s in family.samples if "search" in s.labels}
    assert labels == {name}


def test_no_best_before_the_first_score():
    with Metrics("0") as metrics:
        assert "detol_trials" not in scrape(metrics.url)
        metrics.keep(Picture(name="new"))
        assert "detol_best_value" not in scrape(metrics.url)


def test_the_best_value_is_one_from_scratch_where_there_is_any():
    def ended(score, **extra):
        candidate = Candidate(Decisions(), chain(op("linear")), Origin.SAMPLE)
        return Trial(0, candidate, State.COMPLETED, 1, scores=(score,), extra=extra)

    tally = Tally(best=ended(0.9, inherited_from="3"))
    limits = SimpleNamespace(trials=9)
    search = SimpleNamespace(tally=tally, running={}, seconds=1.0, task=SimpleNamespace(limits=limits))
    with Metrics("0") as metrics:
        watcher = metrics.around(Quiet(), "inheriting")
        watcher(search)
        assert scrape(metrics.url)["detol_best_value"] == 0.9
        tally.scratch = ended(0.5)
        watcher(search)
        assert scrape(metrics.url)["detol_best_value"] == 0.5


def test_a_minimised_objective_is_exported_as_it_is_measured(tmp_path):
    settings = Settings(
        data="digits", space="tiny", strategy="random", stop="none", trials=1, epochs=1, name="loss", tracking="off",
        objective=("val_loss",), executor="inline", references=False, db=str(tmp_path / "r.db"),
        metrics=str(free_port()),
    )  # fmt: skip
    scraper = Scraper(f"http://127.0.0.1:{settings.metrics}/metrics")
    run.search(settings, scraper)
    assert scraper.seen[-1][0]["detol_best_value"] > 0


@pytest.mark.parametrize("where", ["x", "70000", "host:", "1:2:3", "-1"])
def test_an_address_is_a_port_or_a_host_and_a_port(where):
    with pytest.raises(UsageError, match="PORT or HOST:PORT"):
        Metrics(where)


def test_a_port_in_use_is_one_line_and_nothing_is_written(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        code = cli.run(
            ["search", "--data", "digits", "--space", "tiny", "--executor", "inline", "--metrics", str(port)]
        )
    error = capsys.readouterr().err
    assert code == 2
    assert error.count("\n") == 1
    assert f"cannot listen on 127.0.0.1:{port}" in error
    assert not list(tmp_path.iterdir())


def expressions():
    dashboard = json.loads(DASHBOARD.read_text())
    return [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", [])]


def test_the_grafana_dashboard_asks_for_what_is_exported():
    with Metrics("0") as metrics:
        metrics.keep(Picture(name="any", best=0.5))
        exported = set(scrape(metrics.url))
    asked = {name for text in expressions() for name in re.findall(r"\bdetol_\w+", text)}
    assert asked
    assert asked <= exported


def test_the_grafana_dashboard_asks_ray_for_what_ray_exports():
    ray = pytest.importorskip("ray")
    panels = Path(ray.__file__).parent / "dashboard/modules/metrics/dashboards/default_dashboard_panels.py"
    known = set(re.findall(r"\bray_\w+", panels.read_text()))
    asked = {name for text in expressions() for name in re.findall(r"\bray_\w+", text)}
    assert asked
    assert asked <= known
