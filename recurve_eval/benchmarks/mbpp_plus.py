"""What MBPP+ says of its tasks outside of its file: types that JSON lacks, and answers that are right besides.

Facts about the public dataset (version 0.2.0) by task number and function name; the alternatives are ours.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

EVERY, ALL_LEVELS = -1, -1

Shape = list[list[object]]


def _same(numbers: Iterable[int], *parts: tuple[int, str, list[int]]) -> dict[int, Shape]:
    return {number: [list(part) for part in parts] for number in numbers}


# Per task: [argument, kind, levels at which a JSON list is one]. Level 0 is the argument itself.
SHAPES: Mapping[int, Shape] = {
    **_same((2, 116, 132, 143, 222, 261, 273, 394, 399, 421, 424, 429, 470, 560, 579, 596, 616, 630, 726, 740, 744,
             809), (EVERY, "tuple", [0])),
    **_same((63, 64, 70, 94, 120, 237, 272, 299, 400, 409, 417, 438, 473, 614, 780), (EVERY, "tuple", [1])),
    **_same((75, 413, 444, 753), (0, "tuple", [1])),
    **_same((106, 750), (1, "tuple", [0])),
    **_same((250, 307, 405, 446, 617, 720, 763, 808), (0, "tuple", [0])),
    **_same((259, 278, 401, 445), (EVERY, "tuple", [0, 1])),
    **_same((722,), (0, "tuple", [1])),
    **_same((580, 615, 791), (EVERY, "tuple", [ALL_LEVELS])),
    **_same((115,), (0, "set", [1])),
    **_same((124,), (0, "float", []), (1, "complex", [])),
    **_same((252,), (0, "complex", [])),
}  # fmt: skip

# Functions whose answers are compared by another rule than equality.
RULES: Mapping[str, str] = {
    **dict.fromkeys(("similar_elements", "find_char_long", "common_in_nested_lists", "extract_singly", "larg_nnum",
                     "intersection_array", "find_dissimilar", "Diff"), "set"),
    **dict.fromkeys(("check_str", "text_match_three", "text_starta_endb"), "not_none"),
    "are_equivalent": "any",
}  # fmt: skip

# Statements with two readings: an answer by the other reading is right as well.
ALTERNATIVES: Mapping[str, str] = {
    "sum_div": "def sum_div(number):\n    return 0\n",
    "surface_Area": '''\
def surface_Area(base_edge, height):
    """The height is that of the apex above the base, not that of a side."""
    slant = ((base_edge / 2) ** 2 + height * height) ** 0.5
    return round(base_edge * base_edge + 2 * base_edge * slant)
''',
    "digit_distance_nums": '''\
def digit_distance_nums(num1, num2):
    """Digits are compared by their place value, missing ones being zeros."""
    total = 0
    first, second = abs(num1), abs(num2)
    while first or second:
        total += abs(first % 10 - second % 10)
        first, second = first // 10, second // 10
    return total
''',
}


def shape_of(task_id: str) -> Shape:
    """The types of a task's inputs; empty where they are as in JSON."""
    prefix, _, number = task_id.partition("/")
    return SHAPES.get(int(number), []) if prefix == "Mbpp" and number.isdigit() else []
