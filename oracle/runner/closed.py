"""Whether code can leave anything behind in its interpreter, told from what it is compiled to.

*Closed* code binds names and attributes of nothing that outlives it, imports only modules that keep no state which
could change a later answer, and reaches neither frames nor namespaces. That is a statement about tests, which are not
hostile: what is guarded against is a setting that stays, not somebody who hides one. Whatever is not seen to be closed
is not.
"""

from __future__ import annotations

import builtins
import opcode
import sys
import types

_MODULES = frozenset({"copy", "itertools", "math", "random", "typing"})
_BUILTINS = frozenset(
    "abs all any ascii bin bool bytearray bytes chr complex dict divmod enumerate filter float format frozenset hash "
    "hex int isinstance issubclass iter len list map max min next object oct ord pow print range repr reversed round "
    "set slice sorted str sum tuple type zip __name__".split()
) | {name for name, value in vars(builtins).items() if isinstance(value, type) and issubclass(value, BaseException)}
_STDLIB: frozenset[str] = getattr(sys, "stdlib_module_names", frozenset(sys.builtin_module_names))
# Ways from an object to the frame or the code that it runs in.
_INNARDS = ("ag_", "co_", "cr_", "f_", "gi_", "tb_")
_SETTING = ("STORE_ATTR", "DELETE_ATTR", "LOAD_BUILD_CLASS")
_READ = ("IMPORT_NAME", "EXTENDED_ARG")
_LEGIBLE = set(_SETTING + _READ) <= set(opcode.opmap)  # else this interpreter's code cannot be told apart
_FORBIDDEN = frozenset(opcode.opmap.get(name, -1) for name in _SETTING)
_IMPORT, _EXTENDED = (opcode.opmap.get(name, -1) for name in _READ)


def is_closed(code: types.CodeType) -> bool:
    """Of a module's code, with all that is defined in it."""
    words = code.co_code[::2]
    if not _LEGIBLE or not _FORBIDDEN.isdisjoint(words) or not all(map(_harmless, code.co_names)):
        return False
    if _IMPORT in words and not _imported(code) <= _MODULES:
        return False
    return all(is_closed(inner) for inner in code.co_consts if isinstance(inner, types.CodeType))


def _harmless(name: str) -> bool:
    if name in _BUILTINS or name in _MODULES:
        return True
    # A module's attribute may be another module.
    return not (hasattr(builtins, name) or name in _STDLIB or name.startswith(("_", *_INNARDS)))


def _imported(code: types.CodeType) -> set[str]:
    """Names of the modules; of too many names to be told in one byte, one that is no module."""
    found: set[str] = set()
    words = code.co_code
    for at in range(0, len(words), 2):
        if words[at] == _IMPORT:
            found.add("" if at and words[at - 2] == _EXTENDED else code.co_names[words[at + 1]])
    return found
