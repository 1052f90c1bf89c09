import sys
import zipfile
from contextlib import ExitStack
from pathlib import Path

import pytest

from recurve_eval.errors import ConfigError, Refused
from recurve_eval.oracle import recipe, tools, wheels

SITE = "usr/local/lib/python3.11/dist-packages"
FILES = {
    "thing/__init__.py": b"x = 1\n",
    "thing/data/words.txt": b"words",
    "thing-1.0.dist-info/RECORD": b"",
    "thing-1.0.data/scripts/thing": b"#!python\nprint(1)\n",
    "thing-1.0.data/purelib/pure.py": b"",
    "thing-1.0.data/data/share/thing.txt": b"",
    "thing-1.0.data/headers/thing.h": b"",
    "../escape.py": b"",
}


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    path = tmp_path / "thing-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in FILES.items():
            archive.writestr(name, content)
        tool = zipfile.ZipInfo("thing/tool")
        tool.external_attr = 0o100755 << 16
        archive.writestr(tool, b"#!/bin/sh\n")
    return path


def made(tmp_path: Path, **keys: object) -> recipe.Recipe:
    return recipe.parse({"builder": "debian", "packages": ["base-files"], **keys}, tmp_path)


def test_a_wheel_goes_where_its_format_says(tmp_path: Path, wheel: Path) -> None:
    with ExitStack() as files:
        found = {e.path: (oct(e.mode), e.open().read()) for e in wheels.installed(made(tmp_path), [wheel], files)}
    assert found == {
        f"{SITE}/thing/__init__.py": ("0o644", b"x = 1\n"),
        f"{SITE}/thing/data/words.txt": ("0o644", b"words"),
        f"{SITE}/thing/tool": ("0o755", b"#!/bin/sh\n"),
        f"{SITE}/thing-1.0.dist-info/RECORD": ("0o644", b""),
        f"{SITE}/pure.py": ("0o644", b""),
        "usr/local/bin/thing": ("0o755", b"#!/usr/bin/python3\nprint(1)\n"),
        "usr/local/share/thing.txt": ("0o644", b""),
    }


def test_what_the_recipe_drops_is_left_out_of_a_wheel(tmp_path: Path, wheel: Path) -> None:
    with ExitStack() as files:
        entries = wheels.installed(made(tmp_path, drop=[f"{SITE}/thing/*", "usr/*/bin/*"]), [wheel], files)
        assert {e.path for e in entries} == {
            f"{SITE}/pure.py", f"{SITE}/thing-1.0.dist-info/RECORD", "usr/local/share/thing.txt",
        }  # fmt: skip


def test_data_files_are_copied_out_of_a_wheel(tmp_path: Path, wheel: Path) -> None:
    asset = {"requirement": "Thing==1.0", "source": "thing/data", "destination": "usr/share/thing"}
    with ExitStack() as files:
        found = list(wheels.assets(made(tmp_path, assets=[asset]), [wheel], files))
        assert [(e.path, e.open().read()) for e in found] == [("usr/share/thing/words.txt", b"words")]
        with pytest.raises(ConfigError, match="holds nothing under thing/none"):
            list(wheels.assets(made(tmp_path, assets=[{**asset, "source": "thing/none"}]), [wheel], files))
        with pytest.raises(ConfigError, match=r"assets.lock lacks Thing==1.0"):
            list(wheels.assets(made(tmp_path, assets=[asset]), [], files))


def test_a_machine_without_known_wheels_is_a_config_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="not for riscv64 on bookworm"):
        wheels.resolve(made(tmp_path, architecture="riscv64"), ["x"], tmp_path, print)


def test_a_missing_program_is_named_with_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(Refused, match=r"mmdebstrap .apt-get install -y mmdebstrap"):
        tools.require("mmdebstrap")


def test_a_program_is_ended_when_its_reader_fails() -> None:
    class Stop(Exception):
        pass

    def stop(line: str) -> None:
        raise Stop(line)

    script = "import time; print('up', flush=True); time.sleep(60)"
    with pytest.raises(Stop, match="up"):
        tools.run([sys.executable, "-c", script], stop)


def test_output_and_exit_code_are_given_back_line_by_line() -> None:
    seen: list[str] = []
    code, output = tools.run([sys.executable, "-c", "print('a'); print('b'); raise SystemExit(3)"], seen.append)
    assert (code, output, seen) == (3, "a\nb\n", ["a", "b"])
