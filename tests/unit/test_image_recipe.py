import re
from pathlib import Path

import pytest

from recurve_eval.errors import ConfigError, UnknownName
from recurve_eval.oracle import build, recipe

DEBIAN = {"builder": "debian", "packages": ["base-files"]}
HEX = "0" * 64


def test_every_shipped_recipe_is_locked_and_pinned() -> None:
    shipped = build.recipes()
    assert {"python-min", "python-sci"} <= {made.name for made in shipped}
    for made in shipped:
        assert made.pin is not None, made.name
        assert made.pin.architecture == made.architecture
        assert made.pin.python.startswith(f"{made.python}.")
        assert re.fullmatch("sha256:[0-9a-f]{64}", made.pin.image_id)
        assert set(made.packages) <= {name for name, _ in recipe.locked_packages(made)}


def test_shipped_recipes_name_no_host_and_no_path_of_the_machine_that_locked_them() -> None:
    for path in recipe.IMAGES.rglob("*"):
        if path.is_file():
            text = path.read_text()
            assert not re.search(r"https?://|file:|/(?:work|home|root|opt|tmp|var/tmp)/", text), path


@pytest.mark.parametrize("base", ["python:3.11", "debian", "python@sha256:12", f"Python@sha256:{HEX}", ""])
def test_a_base_that_can_move_is_a_config_error(base: str) -> None:
    with pytest.raises(ConfigError, match="mutable tag"):
        recipe.parse({"builder": "docker", "base": base}, Path("r"))


@pytest.mark.parametrize("base", [f"python@sha256:{HEX}", f"host.example:5000/a/b:3.11@sha256:{HEX}", f"sha256:{HEX}"])
def test_a_base_named_by_digest_is_taken(base: str) -> None:
    assert recipe.parse({"builder": "docker", "base": base}, Path("r")).base == base


def test_a_misspelt_key_is_refused_with_a_guess() -> None:
    with pytest.raises(UnknownName, match="Did you mean 'packages'"):
        recipe.parse({**DEBIAN, "package": []}, Path("r"))


def test_the_directory_is_no_key() -> None:
    with pytest.raises(UnknownName):
        recipe.parse({**DEBIAN, "root": "/"}, Path("r"))


def test_an_unknown_builder_and_an_unknown_recipe_list_the_known_ones() -> None:
    with pytest.raises(UnknownName, match="Known: debian, docker"):
        recipe.parse({"builder": "alpine"}, Path("r"))
    with pytest.raises(UnknownName, match="python-min"):
        recipe.load("python-mim")


@pytest.mark.parametrize("document", [None, [], {"builder": "debian"}])
def test_a_recipe_without_substance_is_a_config_error(document: object) -> None:
    with pytest.raises(ConfigError):
        recipe.parse(document, Path("r"))


def test_a_lock_line_without_a_hash_is_refused_with_the_remedy(tmp_path: Path) -> None:
    made = recipe.parse(DEBIAN, tmp_path)
    with pytest.raises(ConfigError, match="oracle lock"):
        recipe.locked_packages(made)
    (tmp_path / "packages.lock").write_text(f"# why\ndash=0.5 sha256:{HEX}\n")
    assert recipe.locked_packages(made) == {("dash", "0.5"): HEX}
    (tmp_path / "packages.lock").write_text("dash=0.5\n")
    with pytest.raises(ConfigError, match=r"cannot read 'dash=0.5'.*oracle lock"):
        recipe.locked_packages(made)


def test_a_pin_is_read_back_as_written(tmp_path: Path) -> None:
    made = recipe.parse(DEBIAN, tmp_path)
    assert made.pin is None
    pin = recipe.Pin(f"sha256:{HEX}", "amd64", "3.11.2")
    pin.write(tmp_path)
    assert made.pin == pin
