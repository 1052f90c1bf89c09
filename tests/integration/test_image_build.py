"""Images are really built here, by a private Docker daemon, from the mirror that the machine is set up with."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from dockerd import lack

from recurve_eval.errors import ConfigError, Drift, InfraError, Refused
from recurve_eval.oracle import build, recipe, wheels

REPOSITORY = Path(__file__).resolve().parents[2]
DOCKERD = REPOSITORY / "scripts" / "dockerd"
pytestmark = [pytest.mark.docker, pytest.mark.slow]


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A daemon of this module's own, which holds no image."""
    for program in ("dockerd", "mmdebstrap"):
        if shutil.which(program) is None:
            lack(f"{program} is not installed")
    if os.geteuid() != 0:
        lack("a private Docker daemon needs root")
    place = tmp_path_factory.mktemp("d")
    said = subprocess.run([DOCKERD, "start", place], capture_output=True, text=True, check=True).stdout
    before = os.environ.get("DOCKER_HOST")
    os.environ["DOCKER_HOST"] = said.strip().removeprefix("export DOCKER_HOST=")
    try:
        yield
    finally:
        os.environ.pop("DOCKER_HOST")
        if before is not None:
            os.environ["DOCKER_HOST"] = before
        subprocess.run([DOCKERD, "remove", place], check=True)


@pytest.fixture(scope="module")
def images(daemon: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """python-min, locked at the mirror's present versions and built once: the pin is of this moment."""
    images = tmp_path_factory.mktemp("images")
    shutil.copytree(recipe.IMAGES / "python-min", images / "python-min")
    work = tmp_path_factory.mktemp("first")
    try:
        build.lock("python-min", work=work, images=images)
    except InfraError as error:
        lack(f"no mirror: {error}")
    build.build("python-min", work=work, repin=True, images=images)
    assert list(work.iterdir()) == []
    return images


@pytest.fixture
def base(images: Path) -> str:
    pin = recipe.load("python-min", images).pin
    assert pin is not None
    return pin.image_id


def derived(images: Path, base: str, *, content: str = "hello\n") -> str:
    """A recipe of the docker builder on top of python-min."""
    root = images / "derived"
    (root / "context").mkdir(parents=True, exist_ok=True)
    (root / "recipe.yaml").write_text(yaml.safe_dump({"builder": "docker", "base": base}))
    (root / "Dockerfile").write_text(
        "COPY greeting /srv/greeting\nRUN read word < /srv/greeting; echo $word > /srv/copy\nENV A=1\n"
    )
    (root / "context" / "greeting").write_text(content)
    return root.name


def altered(images: Path, tmp_path: Path, old: str, new: str) -> Path:
    """A copy of the recipes whose python-min lock differs in one place."""
    copy = tmp_path / "images"
    shutil.copytree(images / "python-min", copy / "python-min")
    lock = copy / "python-min" / "packages.lock"
    text = lock.read_text()
    assert old in text
    lock.write_text(text.replace(old, new))
    return copy


def docker(*words: str) -> str:
    return subprocess.run(["docker", *words], capture_output=True, text=True, check=True).stdout


def test_a_second_build_elsewhere_gives_the_same_image(images: Path, tmp_path: Path, base: str) -> None:
    lines: list[str] = []
    mask = os.umask(0o077)
    try:
        result = build.build("python-min", work=tmp_path / "w", progress=lines.append, images=images)
    finally:
        os.umask(mask)
    assert result.matches and result.image_id == base
    assert result.python.startswith("3.11.") and result.size > 10_000_000
    assert any("downloading packages" in line for line in lines)
    assert list((tmp_path / "w").iterdir()) == []
    assert build.image_present(base)
    committed = recipe.load("python-min")
    if (images / "python-min" / "packages.lock").read_bytes() == committed.lock_file("packages.lock").read_bytes():
        assert committed.pin is not None and committed.pin.image_id == base


def test_nothing_but_the_image_is_left_in_docker(base: str) -> None:
    assert docker("ps", "--all", "--quiet") == ""
    assert docker("images", "--all", "--quiet", "--no-trunc").split() == [base]


def test_the_image_holds_no_trace_of_the_mirror_and_no_stale_bytecode(base: str) -> None:
    script = (
        "import os, json, sys; found = [os.path.join(d, f) for d, _, fs in os.walk('/etc/apt') for f in fs];"
        "import unittest; print(json.__cached__, os.path.exists(json.__cached__), found, os.listdir('/var/cache'),"
        " os.path.lexists('/etc/machine-id'))"
    )
    said = docker("run", "--rm", "--network", "none", "--read-only", "--user", "65534", base, "python3", "-c", script)
    assert said.split()[1:] == ["True", "[]", "[]", "False"]


def test_the_docker_builder_is_reproducible_and_its_drift_is_refused(images: Path, base: str, tmp_path: Path) -> None:
    name = derived(images, base)
    with pytest.raises(Refused, match=r"no pin.json"):
        build.build(name, work=tmp_path, images=images)
    first = build.build(name, work=tmp_path, images=images, repin=True)
    second = build.build(name, work=tmp_path, images=images)
    assert first.image_id == second.image_id == second.pinned
    assert docker("run", "--rm", "--network", "none", first.image_id, "python3", "-c",
                  "import os; print(os.environ['A'], open('/srv/copy').read())").split() == ["1", "hello"]  # fmt: skip
    docker("rmi", first.image_id)
    derived(images, base, content="changed\n")
    with pytest.raises(Drift, match=r"re-lock.*repin.*recalibrate"):
        build.build(name, work=tmp_path, images=images)
    assert docker("images", "--all", "--quiet", "--no-trunc").split() == [base]
    assert list(tmp_path.iterdir()) == []
    shutil.rmtree(images / name)


def test_a_step_that_fails_leaves_nothing_behind(images: Path, base: str, tmp_path: Path) -> None:
    name = derived(images, base)
    with (images / name / "Dockerfile").open("a") as dockerfile:
        dockerfile.write("RUN exit 7\n")
    with pytest.raises(InfraError, match=r"exit 7.* returned a non-zero code: 7"):
        build.build(name, work=tmp_path, images=images, repin=True)
    assert docker("images", "--all", "--quiet", "--no-trunc").split() == [base]
    assert docker("ps", "--all", "--quiet") == ""
    shutil.rmtree(images / name)


def test_a_base_that_is_not_here_is_refused(images: Path, tmp_path: Path) -> None:
    name = derived(images, "sha256:" + "0" * 64)
    with pytest.raises(Refused, match="is not here; build that first"):
        build.build(name, work=tmp_path, images=images, repin=True)
    shutil.rmtree(images / name)


def test_a_version_that_the_mirror_no_longer_has_is_named(images: Path, tmp_path: Path) -> None:
    lock = (images / "python-min" / "packages.lock").read_text()
    dash = next(line.split()[0] for line in lock.splitlines() if line.startswith("dash="))
    copy = altered(images, tmp_path, dash, "dash=0.0.1-1")
    with pytest.raises(Drift, match=r"no longer has dash=0\.0\.1-1\. Re-lock with: .*oracle lock.*recalibrate"):
        build.build("python-min", work=tmp_path / "w", images=copy)
    assert list((tmp_path / "w").iterdir()) == []


def test_other_bytes_under_a_locked_version_are_refused(images: Path, tmp_path: Path) -> None:
    lock = (images / "python-min" / "packages.lock").read_text()
    sha256 = next(line.split(":")[-1] for line in lock.splitlines() if line.startswith("dash="))
    copy = altered(images, tmp_path, sha256, "0" * 64)
    with pytest.raises(Drift, match=r"dash=.* \(other bytes\)"):
        build.build("python-min", work=tmp_path / "w", images=copy)


def test_a_package_that_the_lock_lacks_is_not_brought_in_silently(images: Path, tmp_path: Path) -> None:
    lock = (images / "python-min" / "packages.lock").read_text()
    line = next(line for line in lock.splitlines() if line.startswith("libsqlite3-0="))
    copy = altered(images, tmp_path, line + "\n", "")
    with pytest.raises(ConfigError, match=r"packages.lock lacks libsqlite3-0"):
        build.build("python-min", work=tmp_path / "w", images=copy)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("chardet==5.2.0 --hash=sha256:" + "0" * 64, r"chardet==5\.2\.0"),
        ("chardet==0.0.0 --hash=sha256:" + "0" * 64, r"chardet==0\.0\.0"),
    ],
)
def test_a_wheel_that_is_gone_or_differs_is_named(tmp_path: Path, line: str, says: str) -> None:
    lock = tmp_path / "requirements.lock"
    lock.write_text(line + "\n")
    made = recipe.parse({"builder": "debian", "packages": ["base-files"]}, tmp_path)
    try:
        wheels.download(made, lock, tmp_path / "wheels", print)
    except Drift as drift:
        assert re.search(says + ".*oracle lock.*recalibrate", str(drift), re.DOTALL)
    except InfraError as error:
        lack(f"no package index: {error}")
    else:
        pytest.fail("a wheel that cannot exist was taken")


def test_an_index_that_does_not_answer_is_no_drift(tmp_path: Path) -> None:
    lock = tmp_path / "requirements.lock"
    lock.write_text("--index-url http://127.0.0.1:9/\nchardet==5.2.0 --hash=sha256:" + "0" * 64 + "\n")
    made = recipe.parse({"builder": "debian", "packages": ["base-files"]}, tmp_path)
    os.environ["PIP_RETRIES"] = "1"
    try:
        with pytest.raises(InfraError, match="could not fetch the wheels"):
            wheels.download(made, lock, tmp_path / "wheels", print)
    finally:
        os.environ.pop("PIP_RETRIES")


def test_an_interrupt_leaves_nothing_behind(images: Path, tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from recurve_eval.oracle import build\n"
        "say = lambda line: print(line, flush=True)\n"
        "build.build('python-min', work=Path(sys.argv[1]), images=Path(sys.argv[2]), progress=say)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path), str(images)], cwd=REPOSITORY,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    with process:
        for line in process.stdout:
            if "extracting archives" in line:
                process.send_signal(signal.SIGINT)
                break
        _, stderr = process.communicate(timeout=30)
    assert "KeyboardInterrupt" in stderr
    assert list(tmp_path.iterdir()) == []
    assert str(tmp_path) not in Path("/proc/self/mountinfo").read_text()
    assert running(str(tmp_path)) == []


def test_without_docker_the_build_says_how_to_get_it(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from recurve_eval.oracle import build\n"
        "build.build('python-min', work=Path(sys.argv[1]))"
    )
    said = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], cwd=REPOSITORY, capture_output=True, text=True,
        env={**os.environ, "DOCKER_HOST": f"unix://{tmp_path}/none.sock"}, check=False,
    )  # fmt: skip
    assert re.search(r"Refused: .*apt-get install -y docker.io.*scripts/dockerd", said.stderr)


def test_a_private_daemon_leaves_no_process_and_no_mount(base: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    place = tmp_path_factory.mktemp("p")
    said = subprocess.run([DOCKERD, "start", place], capture_output=True, text=True, check=True).stdout
    host = said.strip().removeprefix("export DOCKER_HOST=")
    assert host == f"unix://{place}/docker.sock"
    again = subprocess.run([DOCKERD, "start", place], capture_output=True, text=True, check=True).stdout
    assert again == said
    saved = subprocess.run(["docker", "save", base], capture_output=True, check=True).stdout
    subprocess.run(["docker", "--host", host, "load"], input=saved, capture_output=True, check=True)
    docker("--host", host, "run", "--detach", "--network", "none", base, "python3", "-c", "import time; time.sleep(99)")
    assert running(str(place)) != []
    subprocess.run([DOCKERD, "stop", place], check=True)
    assert running(str(place)) == []
    assert str(place) not in Path("/proc/self/mountinfo").read_text()
    assert (place / "data").is_dir()
    subprocess.run([DOCKERD, "remove", place], check=True)
    assert not place.exists()


def running(word: str) -> list[str]:
    """Processes whose command line holds ``word``."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            line = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
            if word in line and path.parent.name != str(os.getpid()):
                found.append(line)
    return found
