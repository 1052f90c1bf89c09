"""``recurve-eval arm list|show``: what each arm is made of."""

from __future__ import annotations

import argparse

from recurve_eval.arms import REFERENCE, arm_names, components, composition, differences
from recurve_eval.cli.targets import take_own
from recurve_eval.compose import initialised
from recurve_eval.errors import EXIT_DONE, ConfigError, UnknownName
from recurve_eval.plan import readable_yaml

USAGE = """\
usage: recurve-eval arm list [--config-dir DIR]
       recurve-eval arm show NAME [--config-dir DIR]

list   every arm with its parts, in the order in which they act
show   the resolved composition of an arm, and how it differs from A3

--config-dir DIR   a directory of your own options, searched after the shipped ones
"""


def arm(arguments: list[str]) -> int:
    """The verb ``arm``. Raises UnknownName for an arm or a verb that is not there."""
    if not arguments or {"--help", "-h"} & set(arguments):
        print(USAGE, end="")  # noqa: T201 - the verb's output
        return EXIT_DONE
    options = _options(arguments)
    verb, words = options.verb, options.words
    if verb not in ("list", "show"):
        raise UnknownName("verb", f"arm {verb}", ["arm list", "arm show"])
    with initialised(options.config_dir):
        if verb == "list":
            _list()
        elif len(words) == 1:
            _show(words[0])
        else:
            raise ConfigError(f"arm show takes one arm. Known: {', '.join(arm_names())}")
    return EXIT_DONE


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="recurve-eval arm", usage=USAGE.removeprefix("usage: "), add_help=False)
    parser.add_argument("verb")
    parser.add_argument("words", nargs="*")
    take_own(parser)
    return parser.parse_intermixed_args(arguments)


def _list() -> None:
    for name in arm_names():
        print(f"{name:<6} {composition(name)['arm']['description']}")  # noqa: T201
        print(f"       {', '.join(components(name))}")  # noqa: T201


def _show(name: str) -> None:
    print(readable_yaml(dict(composition(name))), end="")  # noqa: T201
    if name == REFERENCE:
        return
    print(f"\ndifference from {REFERENCE}:")  # noqa: T201
    found = list(differences(name))
    for key, theirs, mine in found:
        print(f"  {key}: {_short(theirs)} -> {_short(mine)}")  # noqa: T201
    if not found:
        print("  none")  # noqa: T201


def _short(value: object) -> str:
    text = "none" if value is None else str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
