"""Settings: a TOML file, flags and Python arguments mean the same."""

import pytest

from detol import config
from detol.errors import UsageError


def test_toml_and_flags_mean_the_same(tmp_path):
    file = tmp_path / "run.toml"
    file.write_text(
        'data = "digits"\nspace = "tiny"\ntrials = 7\nranks = 1\nobjective = ["val_accuracy", "params:min"]\n'
        "max-params = 1e5\n[set]\nstrategy.population = 20\nrecipe.learning_rate = 0.05\n"
    )
    flags = config.settings(
        None,
        config.parse_sets(["strategy.population=20", "recipe.learning_rate=0.05"]),
        data="digits",
        space="tiny",
        trials=7,
        ranks="1",
        objective=("val_accuracy", "params:min"),
        max_params=1e5,
    )
    assert config.settings(file) == flags


def test_an_option_in_quotes_is_what_it_is_without(tmp_path):
    file = tmp_path / "run.toml"
    file.write_text('[set]\nstop.eta = 4\n"strategy.population" = 20\n"strategy.tournament" = 4\n')
    assert config.settings(file).options == {"stop": {"eta": 4}, "strategy": {"population": 20, "tournament": 4}}


def test_flags_win_over_the_file(tmp_path):
    file = tmp_path / "run.toml"
    file.write_text("trials = 7\nepochs = 3\n[set]\nstrategy.population = 20\n")
    made = config.settings(file, {"strategy": {"tournament": 4}}, trials=9)
    assert (made.trials, made.epochs) == (9, 3)
    assert made.section("strategy") == {"population": 20, "tournament": 4}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("trails = 7", "did you mean trials"),
        ("trials = 0", "--trials must be >= 1, got 0"),
        ("epochs = -3", "--epochs must be >= 1, got -3"),
        ('trials = "many"', "wrong type"),
        ("trials = 2.5", "wrong type"),
        ("trials = ", "not TOML"),
        ("trials = inf", "wrong type"),
        ("hours = nan", "wrong type"),
        ("set = 3", "SECTION.KEY"),
        ("options = 3", "unknown setting"),
        ("[set]\npopulation = 3", "SECTION.KEY"),
        ('[set]\n"strategy." = 3', "SECTION.KEY"),
        ("[set]\nstrategie.population = 3", "did you mean strategy"),
        ('ranks = "some"', "--ranks must be auto or a whole number"),
        ('name = "../up"', "a search's name is letters"),
        ('device = "cud"', "did you mean cuda"),
    ],
)
def test_a_wrong_file_is_one_line(tmp_path, text, message):
    file = tmp_path / "run.toml"
    file.write_text(text)
    with pytest.raises(UsageError) as caught:
        config.settings(file)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_one_line(tmp_path):
    with pytest.raises(UsageError, match="cannot read"):
        config.settings(tmp_path / "none.toml")


def test_settings_survive_a_round_trip_as_a_dict():
    made = config.settings(None, {"strategy": {"population": 5}}, data="digits", objective=("val_accuracy", "params"))
    assert config.Settings.from_dict(made.as_dict()) == made


def test_a_later_versions_settings_can_be_read():
    made = config.settings(data="digits")
    assert config.Settings.from_dict({**made.as_dict(), "invented_later": 1}) == made


def test_budget_and_addresses_do_not_make_another_search():
    first = config.settings(data="digits", trials=5, workers=1, name="a")
    second = config.settings(data="./digits", trials=9, workers=2, name="b", db="x.db", tracking="off")
    assert first.identity(data="x1:0") == second.identity(data="x1:0")
    assert first.identity(data="x1:0") != first.identity(data="x1:1")
    assert first.identity(data="x1:0") != config.settings(data="digits", seed=1).identity(data="x1:0")


@pytest.mark.parametrize("pair", ["population=3", "strategy.population", "strategy.=3", "=3"])
def test_set_takes_section_key_value(pair):
    with pytest.raises(UsageError, match="SECTION.KEY=VALUE"):
        config.parse_sets([pair])


def test_set_reads_json_where_it_can():
    assert config.parse_sets(["recipe.nesterov=false", "recipe.augment=flip,crop", "data.kind=signal"]) == {
        "recipe": {"nesterov": False, "augment": "flip,crop"},
        "data": {"kind": "signal"},
    }


@pytest.mark.parametrize("text", ["9" * 5_000, "[" * 100_000], ids=["digits", "nesting"])
def test_what_python_does_not_read_as_json_is_text(text: str) -> None:
    assert config.parse_sets([f"strategy.members={text}"]) == {"strategy": {"members": text}}


def test_hours_bound_a_search_in_place_of_trials():
    assert config.Settings().settled().trials == config.TRIALS
    assert config.Settings(hours=1).settled().trials is None
    assert config.Settings(hours=1, trials=7).settled().trials == 7


def test_where_time_is_the_bound_the_guided_strategy_looks_at_prices():
    assert config.Settings().settled().section("strategy") == {}
    assert config.Settings(hours=1).settled().section("strategy") == {"thrift": config.THRIFT}
    given = config.Settings(hours=1, options={"strategy": {"thrift": 0.0}})
    assert given.settled().section("strategy") == {"thrift": 0.0}
    assert config.Settings(hours=1, strategy="random").settled().section("strategy") == {}


@pytest.mark.parametrize("strategy", ["prune", "prune:edges", "grow"])
def test_strategies_that_say_what_is_inherited_take_no_other_rule(strategy):
    for rule in ("off", "match"):
        with pytest.raises(UsageError, match=f"strategy {strategy} .*--inherit {rule}") as caught:
            config.settings(strategy=strategy, inherit=rule)
        assert "\n" not in str(caught.value)
    assert config.settings(strategy=strategy).inherit == "off"
    assert config.settings(strategy=strategy, inherit="morph").inherit == "morph"
    assert config.settings(strategy="evolution", inherit="match").inherit == "match"


def test_what_may_answer_is_part_of_what_a_search_is():
    of = {reuse: config.Settings(data="digits", reuse=reuse).identity() for reuse in config.REUSE}
    assert len(set(of.values())) == 3
    # What a search was known by before there was a choice (commit 86df7c1).
    assert config.Settings(data="digits").identity(data="x1:0") == "5a184e53879b0811bf024135eacb5e03"
    with pytest.raises(UsageError, match="unknown reuse 'sometimes': known: always, never, same-seed"):
        config.Settings(data="digits", reuse="sometimes")
