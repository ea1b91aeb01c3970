"""Settings: what a user may write in a file or on the command line, and what is said when it cannot work."""

import math
import random
import string
from typing import Annotated, Any, Literal

import msgspec
import pytest
from msgspec import Meta

from rookery.errors import UserError
from rookery.settings import (
    Range,
    apply_overrides,
    build,
    describe,
    merge,
    pull_ranges,
    read_file,
    read_yaml,
    to_tree,
    to_yaml,
)


class Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class Limit(Part):
    start: Annotated[int, Meta(ge=1, description="steps at first")]
    share: Annotated[float, Meta(gt=0, le=1, description="share that makes it grow")] = 0.5


class Adam(Part, tag_field="type", tag="adam"):
    beta: Annotated[float, Meta(ge=0, lt=1)] = 0.9


class SGD(Part, tag_field="type", tag="sgd"):
    momentum: float = 0.0


class ES(Part, tag_field="type", tag="es"):
    lr: Annotated[float, Meta(gt=0, description="learning rate")] = 0.05
    sigma: Annotated[float, Meta(gt=0)] = 0.1
    population: Annotated[int, Meta(ge=1, description="candidates per generation")] = 128
    optimiser: Adam | SGD = Adam()
    limit: Annotated[Limit | None, Meta(description="null = none")] = None


class GA(Part, tag_field="type", tag="ga"):
    mutation: Annotated[float, Meta(gt=0)] = 0.01
    population: int = 1000


class Net(Part, tag_field="type", tag="net"):
    hidden: tuple[Annotated[int, Meta(ge=1)], ...] = (64, 64)
    activation: Literal["tanh", "relu"] = "tanh"
    bins: int | tuple[float, ...] | None = None
    origin: Annotated[str | None, Meta(description="a file")] = None
    seed: int = 0


class World(Part):
    id: Annotated[str, Meta(description="the name of the world")]
    steps: Annotated[int, Meta(ge=1)] | None = None
    options: dict[str, Any] = {}
    bounds: tuple[float, float] = (-1.0, 1.0)
    flip: bool = False

    def __post_init__(self) -> None:
        if self.flip and self.steps is None:
            raise ValueError("flip needs steps")


class Schema(Part):
    world: World
    net: Annotated[Net, Meta(description="the network")] = Net(hidden=(32,))
    algorithm: ES | GA = ES(sigma=0.2)
    spare: ES | GA | None = None
    seed: Annotated[int, Meta(ge=0, description="of everything")] = 0
    note: str = ""


BASE = {"world": {"id": "w"}}


def load(text: str = "", *overrides: str) -> Schema:
    tree, _ = apply_overrides(Schema, merge(Schema, BASE, read_yaml(text)), overrides)
    return build(Schema, pull_ranges(Schema, tree)[0])


def message(text: str, *overrides: str) -> str:
    with pytest.raises(UserError) as caught:
        load(text, *overrides)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-4", 1e-4),
        ("1e6", 1e6),
        (".5", 0.5),
        ("-1.5E+3", -1500.0),
        (".inf", math.inf),
        ("-.Inf", -math.inf),
        ("012", 12),
        ("0x1f", 31),
        ("0o17", 15),
        ("1_000_000", 1000000),
        ("2024_01", "2024_01"),
        ("1:30", "1:30"),
        ("2024-01-01", "2024-01-01"),
        ("no", "no"),
        ("on", "on"),
        ("True", True),
        ("~", None),
        ("", None),
        ("'1'", "1"),
        ("{a: [1, b]}", {"a": [1, "b"]}),
    ],
)
def test_yaml_values_are_what_they_look_like(text: str, value: Any) -> None:
    read = read_yaml(f"x: {text}")["x"]
    assert read == value
    assert type(read) is type(value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: 1\nb: 2\na: 3\n", "f.yaml, line 3: the key 'a' is given twice"),
        ("a:\n  b: 1\n  b: 2\n", "f.yaml, line 3: the key 'b' is given twice"),
        ("a: 1\nb: [1\nc: 2\n", "f.yaml, line 3: "),
        ("a: 1\n 1: 2", "f.yaml, line 2: "),
        ("x: 1\n5: 2", "f.yaml, line 2: keys are words"),
        ("[1, 2]", "f.yaml: the top level must be a mapping"),
        ("a: !!python/name:os.system x", "f.yaml, line 1: the tag 'tag:yaml.org,2002:python/name:os.system'"),
        ("a: !!int many", "f.yaml, line 1: 'many' is not a YAML int"),
        ("a: &a [*a]", "f.yaml, line 1: "),
        ("a: \x00", "f.yaml: not valid YAML"),
    ],
)
def test_yaml_errors_name_file_and_line(text: str, said: str) -> None:
    with pytest.raises(UserError) as caught:
        read_yaml(text, "f.yaml")
    assert str(caught.value).startswith(said)
    assert "\n" not in str(caught.value)


def test_files_that_cannot_be_read(tmp_path) -> None:
    with pytest.raises(UserError, match=r"there is no file '.*none\.yaml'"):
        read_file(tmp_path / "none.yaml")
    with pytest.raises(UserError, match="cannot read"):
        read_file(tmp_path)
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UserError, match="not a text file"):
        read_file(tmp_path / "binary.yaml")
    (tmp_path / "empty.yaml").write_text("# nothing\n")
    assert read_file(tmp_path / "empty.yaml") == {}


def test_a_child_changes_only_what_it_names() -> None:
    loaded = load("{algorithm: {lr: 1, optimiser: {beta: 0.5}}, net: {activation: relu}}")
    assert loaded == Schema(
        world=World(id="w"),
        net=Net(hidden=(32,), activation="relu"),
        algorithm=ES(sigma=0.2, lr=1.0, optimiser=Adam(beta=0.5)),
    )


@pytest.mark.parametrize("child", ["algorithm: ga", "algorithm: {type: ga}"])
def test_another_type_starts_from_its_own_defaults(child: str) -> None:
    base = {"world": {"id": "w", "options": {"a": 1}}, "algorithm": {"population": 7, "sigma": 1}}
    merged = merge(Schema, base, read_yaml(child + "\nworld: {options: {b: 2}}"))
    assert build(Schema, merged).algorithm == GA()
    assert build(Schema, merged).world.options == {"a": 1, "b": 2}
    assert base["algorithm"] == {"population": 7, "sigma": 1}


def test_the_same_type_named_again_keeps_the_values() -> None:
    tree = merge(Schema, {**BASE, "algorithm": {"lr": 1}}, {"algorithm": "es"})
    assert build(Schema, tree).algorithm == ES(sigma=0.2, lr=1.0)


def test_null_takes_an_optional_part_away_and_values_bring_it_back() -> None:
    assert load("algorithm: {limit: {start: 5}}", "limit=null").algorithm == ES(sigma=0.2)
    assert load("algorithm: {limit: null}", "limit.start=3").algorithm == ES(sigma=0.2, limit=Limit(start=3))
    assert load("", "spare=ga", "spare.mutation=1").spare == GA(mutation=1.0)


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        (["algorithm.lr=1e-3"], {"algorithm": {"lr": 1e-3}}),
        (["lr=1e-3"], {"algorithm": {"lr": 1e-3}}),
        (["lr=1", "lr=2"], {"algorithm": {"lr": 2}}),
        ([" lr = 2 "], {"algorithm": {"lr": 2}}),
        (["optimiser.beta=0.5"], {"algorithm": {"optimiser": {"beta": 0.5}}}),
        (["seed=7"], {"seed": 7}),
        (["net.seed=7"], {"net": {"seed": 7}}),
        (["hidden=[64,32]"], {"net": {"hidden": [64, 32]}}),
        (["hidden=[]"], {"net": {"hidden": []}}),
        (["bins=[0, 0.5]"], {"net": {"bins": [0, 0.5]}}),
        (["bins=5"], {"net": {"bins": 5}}),
        (["population=2e6"], {"algorithm": {"population": 2000000}}),
        (["world.steps=null"], {}),
        (["note=5"], {"note": "5"}),
        (["note=a: b [c"], {"note": "a: b [c"}),
        (["note="], {}),
        (["note='x'"], {"note": "x"}),
        (["origin=null"], {}),
        (["origin=17"], {"net": {"origin": "17"}}),
        (["flip=true", "steps=3"], {"world": {"flip": True, "steps": 3}}),
        (["world.options.a=1", "options.b.c=x"], {"world": {"options": {"a": 1, "b": {"c": "x"}}}}),
        (["world={steps: 3}"], {"world": {"steps": 3}}),
        (["algorithm.type=ga"], {"algorithm": {"type": "ga"}}),
        (["algorithm=ga"], {"algorithm": {"type": "ga"}}),
        (["mutation=0.5", "algorithm.type=ga"], {"algorithm": {"type": "ga", "mutation": 0.5}}),
        (["mutation=0.5", "algorithm=ga"], {"algorithm": {"type": "ga", "mutation": 0.5}}),
        (["algorithm={type: ga, mutation: 1}"], {"algorithm": {"type": "ga", "mutation": 1}}),
        (["momentum=1", "optimiser=sgd"], {"algorithm": {"optimiser": {"type": "sgd", "momentum": 1}}}),
        (["optimiser.type=sgd", "algorithm=es", "spare=es"], None),
        (["spare.optimiser=sgd", "spare=es"], {"spare": {"type": "es", "optimiser": "sgd"}}),
        (["net=net"], {}),
    ],
)
def test_overrides(overrides: list[str], expected: dict[str, Any] | None) -> None:
    if expected is None:
        assert "ambiguous" in message("", *overrides)
    else:
        assert load("", *overrides) == build(Schema, merge(Schema, BASE, expected))


def test_overrides_tell_which_paths_they_set() -> None:
    tree, paths = apply_overrides(Schema, BASE, ["lr=1", "options.x=2", "net=net"])
    assert paths == ("net", "algorithm.lr", "world.options.x")
    assert tree["world"]["options"] == {"x": 2}


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("lr", "'lr' is not an override; write key=value"),
        ("=1", "'=1' has no key; write key=value"),
        ("sgima=1", "unknown setting 'sgima'. Did you mean 'sigma'?"),
        ("algoritm.lr=1", "unknown setting 'algoritm.lr'. Did you mean 'algorithm.lr'"),
        ("algorithm.sgima=1", "unknown setting 'algorithm.sgima'. Did you mean 'sigma'?"),
        ("optimizer.beta=1", "unknown setting 'optimizer.beta'. Did you mean 'optimiser.beta'?"),
        ("algoritm.type=ga", "unknown setting 'algoritm.type'. Did you mean 'algorithm.type'"),
        ("zzzzzz=1", "unknown setting 'zzzzzz'"),
        ("lr.x=1", "unknown setting 'lr.x'"),
        ("options.=1", "unknown setting 'options.'"),
        (
            "type=ga",
            "'type' is ambiguous: write net.type or algorithm.type or algorithm.optimiser.type or spare.type",
        ),
        ("mutation=1", "'mutation' belongs to algorithm.type=ga; this experiment has algorithm.type=es"),
        (
            "algorithm.mutation=1",
            "'algorithm.mutation' belongs to algorithm.type=ga; this experiment has algorithm.type=es",
        ),
        (
            "momentum=1",
            "'momentum' belongs to algorithm.optimiser.type=sgd; this experiment has algorithm.optimiser",
        ),
        ("spare.lr=1", "'spare.lr' belongs to spare.type=es; this experiment has spare=null"),
        (
            "algorithm.type=gaa",
            "algorithm.type: there is no type 'gaa'; the types are es, ga. Did you mean 'ga'?",
        ),
        ("algorithm=pso!", "algorithm.type: there is no type 'pso!'; the types are es, ga"),
        ("algorithm=3", "algorithm: expected one of es, ga, got 3"),
        ("spare=3", "spare: expected one of es, ga or null, got 3"),
        ("lr=[1", "algorithm.lr: cannot read '[1': "),
    ],
)
def test_overrides_that_cannot_work(override: str, said: str) -> None:
    assert message("", override).startswith(said)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("algorithm: {sigma: 0}", "algorithm.sigma: expected a number > 0, got 0"),
        ("algorithm: {sigma: .nan}", "algorithm.sigma: expected a number > 0, got .nan"),
        ("algorithm: {population: -5}", "algorithm.population: expected an integer >= 1, got -5"),
        ("algorithm: {population: many}", "algorithm.population: expected an integer, got 'many'"),
        ("algorithm: {population: 2.5}", "algorithm.population: expected an integer, got 2.5"),
        ("algorithm: {population: true}", "algorithm.population: expected an integer, got true"),
        ("algorithm: {lr: null}", "algorithm.lr: expected a number, got null"),
        ("algorithm: {limit: {share: 1}}", "algorithm.limit.start is missing: steps at first"),
        ("algorithm: {limit: 5}", "algorithm.limit: expected a mapping or null, got 5"),
        ("algorithm: {optimiser: {beta: 1}}", "algorithm.optimiser.beta: expected a number >= 0, < 1, got 1"),
        ("algorithm: null", "algorithm: expected one of es, ga, got null"),
        (
            "algorithm: {type: gaa}",
            "algorithm.type: there is no type 'gaa'; the types are es, ga. Did you mean 'ga'?",
        ),
        ("algorithm: {type: [1]}", "algorithm.type: there is no type [1]; the types are es, ga"),
        ("spare: {lr: 1}", "spare.type is missing: one of es, ga"),
        ("world: {steps: 0}", "world.steps: expected an integer >= 1 or null, got 0"),
        ("world: {id: 5}", "world.id: expected text, got 5"),
        ("world: pong", "world: expected a mapping, got 'pong'"),
        ("world: {flip: 1}", "world.flip: expected true or false, got 1"),
        ("world: {flip: true}", "world: flip needs steps"),
        ("world: {options: 3}", "world.options: expected a mapping, got 3"),
        ("world: {bounds: [1]}", "world.bounds: expected a list [number, number], got [1]"),
        ("net: {hidden: [64, 0]}", "net.hidden: expected a list of integers >= 1, got [64, 0]"),
        ("net: {hidden: 64}", "net.hidden: expected a list of integers >= 1, got 64"),
        ("net: {bins: x}", "net.bins: expected an integer, a list of numbers or null, got 'x'"),
        (
            "net: {activation: thanh}",
            "net.activation: expected relu or tanh, got 'thanh'. Did you mean 'tanh'?",
        ),
        ("net: {activation: 3}", "net.activation: expected relu or tanh, got 3"),
        ("algorithm: {sgima: 1}", "unknown setting 'algorithm.sgima'. Did you mean 'sigma'?"),
        ("lr: 1", "unknown setting 'lr'. Did you mean 'algorithm.lr'?"),
        (
            "algorithm: {mutation: 1}",
            "'algorithm.mutation' belongs to algorithm.type=ga; this experiment has algorithm.type=es",
        ),
        ("seed: -1", "seed: expected an integer >= 0, got -1"),
    ],
)
def test_values_that_cannot_work(text: str, said: str) -> None:
    assert message(text) == said


def test_a_missing_value_is_named_with_its_meaning() -> None:
    with pytest.raises(UserError, match=r"^world\.id is missing: the name of the world$"):
        build(Schema, {})


def test_numbers_are_taken_as_the_field_means_them() -> None:
    loaded = load("{algorithm: {population: 2e3, lr: 1}, net: {hidden: [8.0]}, world: {steps: 5.0}}")
    assert isinstance(loaded.algorithm.population, int)
    assert isinstance(loaded.algorithm.lr, float)  # type: ignore[union-attr]
    assert loaded.net.hidden == (8,)
    assert loaded.world.steps == 5


@pytest.mark.parametrize(
    ("override", "path", "written", "middle"),
    [
        (
            "lr={low: 1e-4, high: 1e-2, scale: log}",
            "algorithm.lr",
            Range(low=1e-4, high=1e-2, scale="log"),
            1e-3,
        ),
        ("lr={low: 1, high: 3}", "algorithm.lr", Range(low=1, high=3), 2.0),
        (
            "population={low: 10, high: 1000, scale: log}",
            "algorithm.population",
            Range(low=10, high=1000, scale="log", integer=True),
            100,
        ),
        ("world.steps={low: 1e2, high: 201}", "world.steps", Range(low=100, high=201, integer=True), 150),
        ("beta={low: 0, high: 0.5}", "algorithm.optimiser.beta", Range(low=0, high=0.5), 0.25),
    ],
)
def test_ranges_are_pulled_out(override: str, path: str, written: Range, middle: float) -> None:
    tree, ranges = pull_ranges(Schema, apply_overrides(Schema, BASE, [override])[0])
    assert ranges == {path: written}
    value = tree
    for name in path.split("."):
        value = value[name]
    assert value == pytest.approx(middle)
    assert type(value) is type(middle)
    build(Schema, tree)


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("lr={low: 2, high: 1}", "algorithm.lr: low must be less than high, got {low: 2, high: 1}"),
        ("lr={low: 1, high: 1}", "algorithm.lr: low must be less than high, got {low: 1, high: 1}"),
        ("lr={low: 0, high: 1}", "algorithm.lr.low: expected a number > 0, got 0"),
        ("beta={low: 0, high: 0.5, scale: log}", "algorithm.optimiser.beta: a log scale needs low > 0, got "),
        ("beta={low: 0.5, high: 2}", "algorithm.optimiser.beta.high: expected a number >= 0, < 1, got 2"),
        ("population={low: 1.5, high: 2}", "algorithm.population.low: expected an integer, got 1.5"),
        ("lr={low: 1}", "algorithm.lr: a range is {low: a, high: b, scale: linear or log}; high is missing"),
        (
            "lr={low: 1, hgih: 2}",
            "algorithm.lr: a range is {low: a, high: b, scale: linear or log}, without 'hgih'. Did you mean",
        ),
        ("lr={low: 1, high: x}", "algorithm.lr.high: expected a number, got 'x'"),
        ("lr={low: 1, high: .inf}", "algorithm.lr.high: expected a finite number, got .inf"),
        ("lr={low: 1, high: 2, scale: cube}", "algorithm.lr.scale: expected linear or log, got 'cube'"),
        ("flip={low: 1, high: 2}", "world.flip: expected true or false, got {low: 1, high: 2}"),
    ],
)
def test_ranges_that_cannot_work(override: str, said: str) -> None:
    assert message("", override).startswith(said)


@pytest.mark.parametrize("help_", [False, True])
@pytest.mark.parametrize(
    "settings",
    [
        Schema(world=World(id="ALE/Pong-v5")),
        Schema(world=World(id="null", steps=3), algorithm=GA(mutation=1e-9), spare=ES(limit=Limit(start=2))),
        Schema(
            world=World(id="1e3", options={"a": [1, {"b: c": "x, y"}], "1": None}),
            note='it\'s: [odd] # "é"\n\t\x7f',
        ),
        Schema(world=World(id="", bounds=(-math.inf, 1e300)), net=Net(hidden=(), bins=(0.1, 1 / 3), origin="yes")),
        Schema(world=World(id="true", options={"deep": {"e": 1e-7}}), seed=10**18, note=" padded "),
    ],
)
def test_what_is_written_reads_back(settings: Schema, help_: bool) -> None:
    text = to_yaml(settings, help=help_)
    assert build(Schema, read_yaml(text)) == settings
    assert ("# of everything" in text) is help_


def test_written_ranges_read_back() -> None:
    text = to_yaml(Schema(world=World(id="w")), ranges={"algorithm.lr": Range(low=1e-4, high=1, scale="log")})
    _, ranges = pull_ranges(Schema, read_yaml(text))
    assert ranges == {"algorithm.lr": Range(low=1e-4, high=1.0, scale="log")}


def test_every_key_is_described() -> None:
    rows = {row.path: row for row in describe(Schema)}
    assert rows["world.id"].required
    assert (rows["algorithm.lr"].default, rows["algorithm.lr"].help) == (0.05, "learning rate")
    assert (rows["algorithm.sigma"].default, rows["algorithm.sigma"].bounds) == (0.2, "> 0")
    assert rows["algorithm.type"].choices == ("es", "ga")
    assert rows["algorithm.type"].default == "es"
    assert rows["net.activation"].choices == ("relu", "tanh")
    assert rows["net.hidden"].type == "list of integers"
    assert rows["world.steps"].type == "integer or null"
    assert rows["algorithm.limit"].default is None
    assert rows["algorithm.limit.start"].required
    assert "algorithm.mutation" not in rows
    chosen = {row.path: row for row in describe(Schema(world=World(id="w"), algorithm=GA(mutation=0.5)))}
    assert chosen["algorithm.mutation"].default == 0.5
    assert chosen["world.id"].default == "w"


def test_every_described_key_can_be_set_to_its_value() -> None:
    settings = Schema(world=World(id="w"), algorithm=GA(), spare=ES(limit=Limit(start=1)))
    for row in describe(settings):
        override = f"{row.path}={msgspec.json.encode(row.default).decode()}"
        assert build(Schema, apply_overrides(Schema, to_tree(settings), [override])[0]) == settings


def test_garbage_is_always_the_users_error() -> None:
    draw = random.Random(1)
    messages = []
    words = [
        "lr",
        "algorithm",
        "type",
        "world",
        "options",
        "hidden",
        "net",
        "spare",
        "limit",
        "es",
        "ga",
        "low",
        "high",
    ]
    glue = [
        *".=:,{}[]&*!|>%@'\"#- \n\t\\~?",
        "\x00",
        "é",
        "\ud800",
        "1e",
        "9" * 30,
        "9" * 5000,
        "null",
        "!!int",
        "<<",
        "[" * 2000,
    ]
    for _ in range(3000):
        count = draw.randrange(1, 12)
        pieces = [
            draw.choice(words if draw.random() < 0.5 else [*glue, *string.ascii_letters]) for _ in range(count)
        ]
        pieces.insert(draw.randrange(len(pieces)), "=")
        try:
            load("", "".join(pieces), draw.choice(["seed=1", "algorithm=ga", "spare=es", "lr=2"]))
        except UserError as error:
            messages.append(str(error))
    assert len(messages) > 1000
    assert not [message for message in messages if "\n" in message]
