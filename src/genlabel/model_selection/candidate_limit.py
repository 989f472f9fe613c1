"""What a search can afford: of a network with very many parameters fewer candidates are tried, and that is said."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice, pairwise

from genlabel._validation import warn
from genlabel.model_selection.halving import union
from genlabel.model_selection.search_space import SearchSpace

MOST_NUMBERS = 8_000_000
"""Parameters of all networks of a search, over entries and folds; a training holds six numbers for each."""

Variants = Sequence[Sequence[int]]


def cap_candidates(
    method: SearchSpace, variants: Variants, hidden: Sequence[int], d: int, k: int, folds: int
) -> Variants:
    """Return the entries that each variant may try: all, or where these are too many those of middling parameters.

    Weight decays go first, then the smallest and the largest learning rates; a variant always keeps some.

    Parameters
    ----------
    method : Method
    variants : sequence of sequences of int
    hidden : sequence of int
        Of recipes that name no network.
    d, k, folds : int
        Features, classes, and networks of each entry.
    """
    sizes = [_parameters((d, *(hidden if way.hidden is None else way.hidden), k)) for way in method.recipes]
    found, tried = variants, union(variants)
    for found in islice(progressively_fewer(method, variants), 3):
        if folds * sum(sizes[method.entries[e].recipe] for e in union(found)) <= MOST_NUMBERS:
            break
    left = union(found)
    if len(left) < len(tried):
        message = f"a network of {max(sizes):,} parameters: the search tries {len(left)} of {len(tried)} candidates"
        warn("candidates", message, UserWarning)
    return found


def progressively_fewer(method: SearchSpace, variants: Variants) -> Iterator[Variants]:
    """Yield the entries of the variants, then fewer and fewer of them: of the middle decay, rates, rate; and one."""
    yield variants
    for middling in (_middle_decay(method), _middle_rates(method, 2), _middle_rates(method, 1)):
        variants = [[e for e in some if middling(e)] or list(some) for some in variants]
        yield variants
    yield [[some[len(some) // 2]] for some in variants]


def _parameters(sizes: Sequence[int]) -> int:
    return sum((n_in + 1) * n_out for n_in, n_out in pairwise(sizes))


def _middle_decay(method: SearchSpace) -> Callable[[int], bool]:
    decays = sorted({one.weight_decay for one in method.candidates})
    return lambda e: method.candidates[method.entries[e].candidate].weight_decay == decays[len(decays) // 2]


def _middle_rates(method: SearchSpace, count: int) -> Callable[[int], bool]:
    rates = sorted({one.learning_rate for one in method.candidates})
    first = max(0, (len(rates) - count) // 2)
    return lambda e: method.candidates[method.entries[e].candidate].learning_rate in rates[first : first + count]
