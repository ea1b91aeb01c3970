"""An agent as a line of text: its seed chain, and what it takes to act, in as few characters as will do.

The text is `rookery1:` and base64 of a checksum and compressed msgpack. How long it is depends on the links of the
chain, some two characters each, and not on the network.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import zlib
from itertools import groupby
from typing import Any

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from rookery.errors import UserError
from rookery.evolution import RandomSearch
from rookery.evolution.generation import Progress
from rookery.experiment import Experiment
from rookery.genomes import Genome, Link, ParameterSpace, SeedChain
from rookery.policies import Moments
from rookery.settings import Tree, build, complete, to_tree
from rookery.settings.tree import ABSENT, lookup, place

_PREFIX = "rookery1:"
_CHECK_BYTES = 6
_WORD = 8  # bytes of a number
_MOST_BYTES = 2**20  # of what a text may unpack to
_MOST_COMPONENTS = 64  # of a normaliser that is carried along
_CARRIED = ("env", "policy")


class _Carried(msgspec.Struct, frozen=True, array_like=True):
    """What is in a text. Links lie column by column: what they have in common then costs next to nothing."""

    settings: dict[str, Any]
    seed: int
    root: int
    generation: int
    steps: bytes  # from the generation of each link to the next
    indices: bytes
    sigmas: list[tuple[int, float]]  # how often, and which
    seen: tuple[int, bytes, bytes] | None  # by the normaliser: count, sums, sums of squares


class UncarriableError(UserError):
    """Why an agent has no text."""


def to_text(experiment: Experiment, progress: Progress) -> str:
    """The champion as a text."""
    chain = _chain(experiment.source.champion(progress.strategy), experiment)
    generations = [0, *(link.generation for link in chain.links)]
    assert chain.root is not None
    carried = _Carried(
        settings=_settings(experiment),
        seed=chain.seed,
        root=chain.root,
        generation=progress.generation,
        steps=_planes(np.diff(generations)),
        indices=_planes(np.array([link.index for link in chain.links])),
        sigmas=[(len(list(same)), sigma) for sigma, same in groupby(link.sigma for link in chain.links)],
        seen=_seen(progress.moments),
    )
    press = zlib.compressobj(9, memLevel=1)  # which looks for the best code again every few hundred bytes
    packed = press.compress(msgspec.msgpack.encode(carried)) + press.flush()
    return _PREFIX + base64.urlsafe_b64encode(_check(packed) + packed).decode().rstrip("=")


def from_text(text: str, trusted: bool = False) -> tuple[Experiment, Progress]:
    """The agent of a text, as the champion of a search that stands where it was found."""
    carried = _unpack("".join(text.split()))
    tree = complete(Experiment, carried.settings)
    tree["seed"] = carried.seed
    experiment = replace(build(Experiment, tree), algorithm=RandomSearch())
    if ":" in experiment.env.name and not trusted:
        raise UserError(
            f"this genome plays {experiment.env.name}, which is code on this machine that a stranger's text may "
            "misuse: if you know what it does, add --trust"
        )
    generations, indices = np.cumsum(_whole(carried.steps)).tolist(), _whole(carried.indices).tolist()
    sigmas = [sigma for count, sigma in carried.sigmas for _ in range(min(count, len(generations)))]
    if not len(generations) == len(indices) == len(sigmas):
        raise UserError("this genome is no whole one: its links have parts missing")
    links = tuple(Link(*parts) for parts in zip(generations, indices, sigmas, strict=True))
    search = experiment.strategy.init(carried.seed, ParameterSpace(()))
    state = replace(search, finalists=(SeedChain(carried.seed, carried.root, links),))
    moments = None
    if carried.seen is not None:
        count, *sums = carried.seen
        moments = Moments(count, *(np.frombuffer(part, np.float64) for part in sums))
    return experiment, Progress(carried.generation, 0, 0, state, moments)


def _chain(champion: Genome, experiment: Experiment) -> SeedChain:
    if not isinstance(champion, SeedChain):
        raise UncarriableError(
            f"a champion of algorithm.type={experiment.kind} is a whole vector, and has no text"
        )
    if champion.root is None:
        raise UncarriableError("this champion descends from another run (policy.init_from), and has no text")
    return champion


def _settings(experiment: Experiment) -> Tree:
    """The settings that an agent needs, without those that are as they are by default."""
    whole = to_tree(experiment)
    whole["policy"]["init_from"] = None
    tree: Tree = {part: whole[part] for part in _CARRIED}
    full = complete(Experiment, tree)
    for path in _paths(tree):
        shorter = _without(tree, path)
        if complete(Experiment, shorter) == full:
            tree = shorter
    return tree


def _paths(tree: Tree, prefix: str = "") -> list[str]:
    """The paths of a tree, parts before what is in them."""
    found = []
    for name, value in tree.items():
        found.append(prefix + name)
        if isinstance(value, dict):
            found += _paths(value, f"{prefix}{name}.")
    return found


def _without(tree: Tree, path: str) -> Tree:
    """A copy of the tree without what is at a path."""
    above, _, name = path.rpartition(".")
    around = lookup(tree, above) if above else tree
    if around is ABSENT or name not in around:
        return tree
    rest = {key: value for key, value in around.items() if key != name}
    return place(tree, above, rest) if above else rest


def _seen(moments: Moments | None) -> tuple[int, bytes, bytes] | None:
    if moments is None:
        return None
    if moments.total.size > _MOST_COMPONENTS:
        raise UncarriableError(
            f"the normaliser of {moments.total.size} numbers is too large for a text, which carries "
            f"{_MOST_COMPONENTS}; policy.normaliser=null does without"
        )
    return moments.count, moments.total.tobytes(), moments.squares.tobytes()


def _planes(numbers: NDArray[np.int64]) -> bytes:
    """The highest bytes of all numbers, then the next, and so on: all but the last are mostly zero."""
    return numbers.astype("<i8").view(np.uint8).reshape(-1, _WORD).T[::-1].tobytes()


def _whole(planes: bytes) -> NDArray[np.int64]:
    if len(planes) % _WORD:
        raise UserError("this genome is no whole one: its links have parts missing")
    rows = np.frombuffer(planes, np.uint8).reshape(_WORD, -1)[::-1].T
    return np.ascontiguousarray(rows).reshape(-1).view("<i8")


def _check(packed: bytes) -> bytes:
    return hashlib.sha256(packed).digest()[:_CHECK_BYTES]


def _unpack(text: str) -> _Carried:
    if not text.startswith(_PREFIX):
        raise UserError(f"this is no genome: its text begins with '{text[:12]}', not '{_PREFIX}'")
    coded = text.removeprefix(_PREFIX)
    try:
        data = base64.b64decode(coded + "=" * (-len(coded) % 4), "-_", validate=True)
    except (binascii.Error, ValueError) as error:
        raise UserError(f"this genome cannot be read: {error}") from error
    check, packed = data[:_CHECK_BYTES], data[_CHECK_BYTES:]
    if check != _check(packed):
        raise UserError("this genome's checksum does not match: a character was lost or changed")
    try:
        return msgspec.msgpack.decode(zlib.decompressobj().decompress(packed, _MOST_BYTES), type=_Carried)
    except (zlib.error, msgspec.MsgspecError) as error:
        raise UserError(f"this genome cannot be read: {error}") from error
