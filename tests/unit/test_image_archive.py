import io
import json
import random
import tarfile
from pathlib import Path

import pytest

from recurve_eval.oracle.archive import (
    DIRECTORY,
    HARDLINK,
    Entry,
    entries_of,
    image_config,
    image_id,
    layer_of,
    write_archive,
    write_layer,
)

EPOCH = 1_700_000_000


def tar_of(path: Path, members: list[tuple[tarfile.TarInfo, bytes]]) -> Path:
    with tarfile.open(path, "w") as tar:
        for info, content in members:
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return path


def member(
    name: str, kind: bytes = tarfile.REGTYPE, mode: int = 0o644, link: str = "", mtime: int = 0
) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.mode, info.linkname, info.mtime = kind, mode, link, mtime
    return info


def relayer(source: Path, out: Path) -> str:
    with tarfile.open(source) as tar:
        return write_layer(entries_of(tar), out, EPOCH).diff_id


def test_order_and_times_of_the_source_do_not_reach_the_layer(tmp_path: Path) -> None:
    names = [f"./usr/d{n % 3}/f{n}" for n in range(30)]
    shuffled = random.Random(7).sample(names, len(names))
    one = tar_of(tmp_path / "a", [(member(n, mtime=1), n.encode()) for n in names])
    two = tar_of(tmp_path / "b", [(member(n, mtime=99), n.encode()) for n in shuffled])
    assert one.read_bytes() != two.read_bytes()
    assert relayer(one, tmp_path / "1") == relayer(two, tmp_path / "2")


@pytest.mark.parametrize("change", [{"mode": 0o755}, {"name": "f2"}, {"kind": tarfile.DIRTYPE}])
def test_whatever_a_container_could_see_changes_the_layer(tmp_path: Path, change: dict) -> None:
    plain = tar_of(tmp_path / "a", [(member("f"), b"")])
    other = tar_of(tmp_path / "b", [(member(**{"name": "f", **change}), b"")])
    assert relayer(plain, tmp_path / "1") != relayer(other, tmp_path / "2")


def test_a_hard_linked_group_has_one_spelling(tmp_path: Path) -> None:
    link = tarfile.LNKTYPE
    one = tar_of(tmp_path / "a", [(member("z"), b"same"), (member("a", link, link="./z"), b"")])
    two = tar_of(tmp_path / "b", [(member("./a"), b"same"), (member("./z", link, link="a"), b"")])
    assert relayer(one, tmp_path / "1") == relayer(two, tmp_path / "2")
    with tarfile.open(tmp_path / "1") as tar:
        assert [(m.name, m.islnk()) for m in tar] == [("a", False), ("z", True)]
        stream = tar.extractfile("z")
        assert stream is not None and stream.read() == b"same"


def test_a_link_that_leaves_the_layer_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="points to gone"):
        write_layer([Entry("a", HARDLINK, target="gone")], tmp_path / "1", EPOCH)


def test_devices_are_left_out_and_set_user_id_is_cleared(tmp_path: Path) -> None:
    source = tar_of(
        tmp_path / "a",
        [
            (member("su", mode=0o6755), b"x"),
            (member("null", tarfile.CHRTYPE), b""),
            (member("p", tarfile.FIFOTYPE), b""),
        ],
    )
    with tarfile.open(source) as tar:
        assert [(e.path, oct(e.mode)) for e in entries_of(tar)] == [("su", "0o755")]


def test_implied_directories_are_added_and_given_ones_kept(tmp_path: Path) -> None:
    layer = write_layer([Entry.of_bytes("tmp/x/f", b"1"), Entry("tmp", DIRECTORY, 0o1777)], tmp_path / "1", EPOCH)
    with tarfile.open(layer.path) as tar:
        assert [(m.name, oct(m.mode), m.mtime) for m in tar] == [
            ("tmp", "0o1777", EPOCH), ("tmp/x", "0o755", EPOCH), ("tmp/x/f", "0o644", EPOCH),
        ]  # fmt: skip


def test_of_two_entries_with_one_path_the_later_wins(tmp_path: Path) -> None:
    layer = write_layer([Entry.of_bytes("f", b"old"), Entry.of_bytes("f", b"new")], tmp_path / "1", EPOCH)
    with tarfile.open(layer.path) as tar:
        stream = tar.extractfile("f")
        assert stream is not None and stream.read() == b"new"


def test_the_diff_id_is_the_digest_of_the_bytes_on_disk(tmp_path: Path) -> None:
    layer = write_layer([Entry.of_bytes("f", b"1" * 3_000_000)], tmp_path / "1", EPOCH)
    assert layer == layer_of(layer.path)


def test_the_archive_names_its_image_by_the_digest_of_its_config(tmp_path: Path) -> None:
    layer = write_layer([Entry.of_bytes("f", b"1")], tmp_path / "1", EPOCH)
    config = image_config([layer], architecture="amd64", created="2023-11-14T22:13:20Z", config={"Env": ["A=1"]})
    other = image_config([layer], architecture="amd64", created="2023-11-14T22:13:20Z", config={"Env": ["A=2"]})
    assert image_id(config) != image_id(other)
    with tarfile.open(write_archive(config, [layer], ["x:1"], tmp_path / "image.tar")) as tar:
        stream = tar.extractfile("manifest.json")
        assert stream is not None
        (manifest,) = json.load(stream)
        assert f"sha256:{manifest['Config'].removesuffix('.json')}" == image_id(config)
        assert manifest["RepoTags"] == ["x:1"]
        kept = tar.extractfile(manifest["Layers"][0])
        assert kept is not None and kept.read() == layer.path.read_bytes()
