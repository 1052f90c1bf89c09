"""Permutations of the positions 0, 1, 2, ... as sparse maps.

A permutation is a dict from position to image. Its canonical form holds only the positions that move, so
the identity is {} and two permutations are the same exactly when their canonical forms are equal.
"""


def canonical(mapping):
    """The canonical form of a mapping. Raises ValueError unless it permutes the positions it names."""
    if set(mapping) != set(mapping.values()) or len(set(mapping.values())) < len(mapping):
        raise ValueError("not a permutation of the positions it names")
    return {position: image for position, image in mapping.items() if position != image}


def apply(permutation, position):
    """Where a position goes; one that the permutation does not name stays."""
    return permutation.get(position, position)


def inverse(permutation):
    """The permutation that undoes another, in canonical form."""
    moves = canonical(permutation)
    return {image: position for position, image in moves.items()}


def rotation(*positions):
    """Each position goes to the one named after it, the last to the first. Raises ValueError on a repetition."""
    if len(set(positions)) < len(positions):
        raise ValueError("a rotation names each position once")
    return canonical(dict(zip(positions, positions[1:] + positions[:1])))


def compose(*permutations):
    """One permutation for several, the last applied first: compose(p, q)(i) = p(q(i)).

    compose() is the identity, compose(p) is p in canonical form.
    """
    if len(permutations) == 2:
        outer, inner = map(canonical, permutations)
        return _after(outer, inner)
    result = {}
    for permutation in permutations:
        result = _after(result, canonical(permutation))
    return result


def _after(outer, inner):
    """inner first, then outer; both canonical."""
    moved = set(outer) | set(inner)
    return canonical({position: apply(outer, apply(inner, position)) for position in moved})


def arrange(permutation, items):
    """A new list in which the item at position i stands at permutation(i).

    Raises ValueError where the permutation moves a position that the items do not have.
    """
    items = list(items)
    moves = canonical(permutation)
    if any(position >= len(items) for position in moves):
        raise ValueError("the permutation moves a position beyond the items")
    arranged = list(items)
    for position, item in enumerate(items):
        arranged[apply(moves, position)] = item
    return arranged
