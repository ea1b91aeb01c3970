"""From seed chains to parameters, without replaying a chain whose beginning is known."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from rookery.genomes.recipes import Keyframe, Link, SeedChain, noise
from rookery.genomes.space import ParameterSpace
from rookery.streams import stream

KEYFRAME_LINKS = 10  # from one keyframe of a chain to the next: a chain is replayed for at most twice as many

Values = NDArray[np.float32]
_Ground = int | bytes
_Key = tuple[int, _Ground, int, Link | None]  # seed, root, how many links, and the last of them


class Chains:
    """Makes the parameters of chains, and remembers the latest: a child of one then costs one noise vector.

    What is remembered saves work and changes no bit, since links are always added one by one from the root on.
    """

    def __init__(self, space: ParameterSpace, most_bytes: int) -> None:
        self.space = space
        self.most = max(1, most_bytes // (4 * space.size))
        self.kept: OrderedDict[_Key, Keyframe] = OrderedDict()

    def make(self, chain: SeedChain, centre: Values, keyframes: Iterable[Keyframe] = ()) -> Values:
        """The parameters of a chain; nobody may write to them."""
        ground = _ground(chain, centre)
        published = {
            _key(keyframe.chain, ground, len(keyframe.chain.links)): keyframe
            for keyframe in keyframes
            if keyframe.chain.root == chain.root
        }
        depth, known = self._nearest(chain, ground, published)
        if known is not None and depth == len(chain.links):
            values = known
        else:
            values = self._root(chain, centre) if known is None else known.copy()
            perturbation = np.empty_like(values)
            for link in chain.links[depth:]:
                mutate(values, chain.seed, link, perturbation)
            values.flags.writeable = False
        self._keep(_key(chain, ground, len(chain.links)), Keyframe(chain, values))
        return values

    def _nearest(
        self, chain: SeedChain, ground: _Ground, published: Mapping[_Key, Keyframe]
    ) -> tuple[int, Values | None]:
        """The longest beginning of the chain that is known: how many links, and what they come to."""
        for depth in range(len(chain.links), -1, -1):
            key = _key(chain, ground, depth)
            for table in (self.kept, published):
                found = table.get(key)
                # The last link names a chain within a run; another run may have used the same name.
                if found is not None and found.chain.links == chain.links[:depth]:
                    return depth, found.values
        return 0, None

    def _root(self, chain: SeedChain, centre: Values) -> Values:
        if chain.root is None:
            return centre.astype(np.float32)
        return self.space.initial(stream(chain.seed, "initial", 0, chain.root))

    def _keep(self, key: _Key, made: Keyframe) -> None:
        self.kept[key] = made
        self.kept.move_to_end(key)
        while len(self.kept) > self.most:
            self.kept.popitem(last=False)


def mutate(values: Values, seed: int, link: Link, perturbation: Values) -> None:
    """Add a link to parameters, in place; `perturbation` is room for its noise."""
    noise(seed, link.generation, link.index, values.size, out=perturbation)
    np.multiply(perturbation, np.float32(link.sigma), out=perturbation)
    np.add(values, perturbation, out=values)


def keyframes(
    chains: Iterable[SeedChain], before: Iterable[Keyframe], space: ParameterSpace, centre: Values
) -> tuple[Keyframe, ...]:
    """A keyframe for each chain that is long enough, made from earlier ones where they are on the way.

    It lies one or two times KEYFRAME_LINKS back, where the lineages of a population have mostly become one.
    """
    known = tuple(before)
    found: dict[SeedChain, Keyframe] = {keyframe.chain: keyframe for keyframe in known}
    wanted = []
    for chain in chains:
        depth = (len(chain.links) // KEYFRAME_LINKS - 1) * KEYFRAME_LINKS
        if depth > 0:
            wanted.append(SeedChain(chain.seed, chain.root, chain.links[:depth]))
    wanted = list(dict.fromkeys(wanted))
    make = Chains(space, 0)
    for chain in wanted:
        if chain not in found:
            found[chain] = Keyframe(chain, make.make(chain, centre, known))
    return tuple(found[chain] for chain in wanted)


def _ground(chain: SeedChain, centre: Values) -> _Ground:
    """What the chain stands on: its root, or the centre by its contents, as another one has other chains."""
    return chain.root if chain.root is not None else hashlib.sha256(centre.tobytes()).digest()


def _key(chain: SeedChain, ground: _Ground, depth: int) -> _Key:
    return chain.seed, ground, depth, chain.links[depth - 1] if depth else None
