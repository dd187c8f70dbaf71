"""``detol plan`` on the command line."""

import json

import pytest

from detol import cli
from detol.scaling.machine import cache, write
from detol.scaling.presets import PRESETS


def run(capsys, *words):
    code = cli.run(["plan", *words])
    return code, *capsys.readouterr()


def test_a_published_network_on_a_preset_as_a_table(capsys):
    code, out, _ = run(capsys, "--model", "alexnet", "--machine", "fdr-k80", "--ranks", "1,16,256")
    assert code == 0
    assert "alexnet: 60,965,224 parameters (243.9 MB of gradients)" in out
    assert "strong scaling: useful up to 20 ranks (efficiency >= 50%), then bound by communication" in out
    assert "the batch of 256 ends it at 256" in out
    assert "weak scaling" in out


def test_json_is_one_document_with_the_machine_and_each_mode(capsys):
    code, out, _ = run(capsys, "--model", "googlenet", "--machine", "fdr-k80", "--json", "--strong", "--batch", "64")
    assert code == 0
    found = json.loads(out)
    assert found["machine"]["name"] == "fdr-k80"
    assert found["machine"]["sources"]
    (network,) = found["networks"]
    assert set(network) == {"strong"}
    assert network["strong"]["batch"] == 64
    assert network["strong"]["limit_by_batch"] == 64


def test_compression_and_storage_count(capsys):
    def strong(*words):
        _, out, _ = run(capsys, "--model", "alexnet", "--machine", "fdr-k80", "--strong", "--json", *words)
        return json.loads(out)["networks"][0]["strong"]

    assert strong("--compression", "100")["largest_useful_width"] > strong()["largest_useful_width"]
    starved = strong("--storage", "20")  # 256 images of 196,608 bytes in 2.5 s
    assert starved["bound"] == "input"
    assert starved["rows"][0]["step_seconds"] == pytest.approx(256 * 196_608 / 20e6)


def test_gradients_are_sent_as_the_recipe_says_unless_a_compression_is_given(capsys):
    words = ["--data", "digits", "--space", "tiny", "--machine", "guess-cpu", "--strong", "--ranks", "1,4"]

    def largest(*more):
        code, out, _ = run(capsys, *words, "--json", *more)
        assert code == 0
        return json.loads(out)["networks"][0]["strong"]

    plain, half = largest(), largest("--set", "recipe.communication=bf16")
    assert (plain["communication"], plain["compression"]) == ("plain", 1)
    assert (half["communication"], half["compression"]) == ("bf16", 2)
    sent = [row["bytes_sent"] for row in plain["rows"]]
    assert sent == [0, 2 * 3 / 4 * plain["gradient_bytes"]]
    assert [row["bytes_sent"] for row in half["rows"]] == [0, sent[1] / 2]
    assert half["rows"][1]["communication_seconds"] < plain["rows"][1]["communication_seconds"]
    sparse = largest("--set", "recipe.communication=topk:0.01")["rows"][1]
    assert sparse["bytes_sent"] == pytest.approx(3 * 0.01 * 2 * plain["gradient_bytes"])  # value and index, of 3 others
    told = largest("--set", "recipe.communication=bf16", "--compression", "1")
    assert (told["communication"], told["rows"]) == ("", plain["rows"])
    _, out, _ = run(capsys, *words, "--set", "recipe.communication=bf16")
    assert ", gradients by bf16 on guess-cpu" in " ".join(out.split())
    _, out, _ = run(capsys, *words)
    assert "gradients by" not in out


def test_the_networks_of_a_space_on_data(capsys):
    code, out, _ = run(capsys, "--data", "digits", "--space", "tiny", "--machine", "guess-cpu", "--json", "--weak")
    assert code == 0
    networks = [network["weak"] for network in json.loads(out)["networks"]]
    assert len(networks) >= 4
    sizes = [network["multiply_adds"] for network in networks]
    assert sizes == sorted(sizes, reverse=True)
    assert {network["batch"] for network in networks} == {32}  # of digits' recipe


def test_this_machine_is_the_cached_one(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    write(PRESETS["fdr-titanx"], cache("cpu", 3))
    words = ["--model", "alexnet", "--device", "cpu", "--workers", "3", "--strong", "--json"]
    code, out, _ = run(capsys, *words)
    assert code == 0
    assert json.loads(out)["machine"]["name"] == "fdr-titanx"


def test_networks_that_are_timed_here(capsys, tmp_path, monkeypatch):
    from dataclasses import replace

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    write(replace(PRESETS["guess-cpu"], name="here", ranks=2), cache("cpu", 2))
    words = ["--data", "digits", "--space", "tiny", "--device", "cpu", "--workers", "2", "--strong", "--json"]
    _, out, _ = run(capsys, *words)
    alone = json.loads(out)["networks"]
    code, out, _ = run(capsys, *words, "--measure")
    assert code == 0
    for foretold, timed in zip(alone, json.loads(out)["networks"], strict=True):
        assert timed["strong"]["network"] == foretold["strong"]["network"]
        one, two = timed["strong"]["rows"]
        assert one["step_seconds"] != foretold["strong"]["rows"][0]["step_seconds"]
        assert two["communication_seconds"] > 0
    code, _, err = run(capsys, "--model", "alexnet", "--device", "cpu", "--workers", "2", "--measure")
    assert code == 2
    assert "alexnet is a table of layers" in err


def test_a_machine_of_a_file_and_a_picture(capsys, tmp_path):
    write(PRESETS["fdr-titanx"], tmp_path / "mine.json")
    picture = tmp_path / "scaling.png"
    words = ["--model", "googlenet", "--machine", str(tmp_path / "mine.json"), "--to", str(picture)]
    code, out, err = run(capsys, *words)
    assert code == 0
    assert "on fdr-titanx" in out
    assert f"written: {picture}" in err
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "a plan is of one thing"),
        (["--model", "alexnet", "--data", "digits"], "a plan is of one thing"),
        (["--model", "alexnet", "--machine", "fdr-k8"], "did you mean fdr-k80"),
        (["--model", "alexnet", "--machine", "nowhere.json"], "cannot read the machine"),
        (["--model", "alexnet", "--machine", "fdr-k80", "--recalibrate"], "--recalibrate measures this machine"),
        (["--model", "alexnet", "--machine", "fdr-k80", "--device", "cuda"], "--device is of this machine, got --mach"),
        (["--model", "alexnet", "--machine", "fdr-k80", "--device", "auto"], "--device is of this machine"),
        (["--model", "alexnet", "--machine", "fdr-k80", "--workers", "4"], "--workers are ranks of this machine, got"),
        (["--model", "alexnet", "--machine", "fdr-k80", "--workers", "0"], "--workers are ranks of this machine"),
        (["--model", "alexnet", "--machine", "fdr-k80", "--ranks", "1,two"], "--ranks are whole numbers"),
        (["--model", "alexnet", "--machine", "fdr-k80", "--ranks", "0"], "--ranks are whole numbers"),
        (["--model", "alexnet", "--machine", "fdr-k80", "--ranks", ""], "--ranks are whole numbers"),
        (["--model", "alexnet", "--machine", "fdr-k80", "--ranks", "1,1" + 20 * "0"], "must be at most 1,000,000,000"),
        (["--model", "alexnet", "--machine", "fdr-k80", "--ranks", 5000 * "9"], "must be at most 1,000,000,000"),
        (["--model", "alexnet", "--machine", "fdr-k80", "--batch", 23 * "9"], "--batch must be at most 1,000,000,000"),
        (["--model", "alexnet", "--machine", "fdr-k80", "--batch", 400 * "9"], "--batch must be at most 1,000,000,000"),
        (["--model", "alexnt"], "unknown model 'alexnt': did you mean alexnet? It is no result either: there is no"),
        (["--model", "mine/3"], "or give --db (known models: alexnet, googlenet)"),
        (["--model", "alexnet", "--machine", "fdr-k80", "--batch", "-3"], "--batch must be >= 1"),
        (["--model", "alexnet", "--machine", "fdr-k80", "--compression", "0"], "--compression must be > 0"),
        (["--model", "alexnet", "--machine", "fdr-k80", "--compression", "inf"], "must be > 0 and finite"),
        (["--model", "alexnet", "--device", "cpu", "--workers", "-3"], "--workers must be >= 1, or 0"),
        (["--model", "alexnet", "--set", "recipe.communication=topk:2"], "--set is of networks of --data"),
        (["--model", "alexnet", "--space", "tiny"], "--space is of networks of --data"),
        (["--model", "alexnet", "--machine", "fdr-k80", "--storage", "fast"], "--storage is in MB/s"),
        (["--model", "alexnet", "--machine", "fdr-k80", "--to", "x.doc"], "a picture ends in"),
        (["--model", "alexnet", "--device", "tpu"], "unknown device"),
        (["--model", "alexnet", "--machine", "fdr-k80", "--measure"], "--measure times networks on this machine"),
        (["--data", "digits", "--space", "tini", "--machine", "guess-cpu"], "did you mean tiny"),
        (["--data", "digits", "--space", "tabular", "--machine", "guess-cpu"], "no network of tabular fits digits"),
    ],
)
def test_bad_input_is_one_line(words, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, err = run(capsys, *words)
    assert code == 2
    assert out == ""
    assert message in err
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_more_ranks_than_the_machine_has_is_one_line(capsys, tmp_path, monkeypatch):
    from dataclasses import replace

    write(replace(PRESETS["guess-cpu"], ranks=2), tmp_path / "two.json")
    code, _, err = run(capsys, "--model", "alexnet", "--machine", str(tmp_path / "two.json"), "--ranks", "1,4")
    assert code == 2
    assert "has 2 ranks, got --ranks 4" in err


def test_a_trial_of_the_results_database(capsys, tmp_path, monkeypatch):
    import detol

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DETOL_RUNS", str(tmp_path / "runs"))
    recipe = {"communication": "fp16"}
    settings = {"name": "planned", "executor": "inline", "tracking": "off", "options": {"recipe": recipe}}
    detol.search("digits", "tiny", "random", trials=1, epochs=1, **settings)
    for ref in ("planned", "planned/0"):
        code, out, _ = run(capsys, "--model", ref, "--machine", "guess-cpu", "--json", "--strong")
        assert code == 0
        found = json.loads(out)["networks"][0]["strong"]
        assert found["network"] == "planned/0"
        assert found["batch"] == 32
        assert (found["communication"], found["compression"]) == ("fp16", 2)
    code, _, err = run(capsys, "--model", "planed", "--machine", "guess-cpu")
    assert code == 2
    assert "planned" in err
