"""The file of pinned images: a JSON object of task ids and images, each named by its content."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from recurve_eval.errors import ConfigError, NoImage

_IMAGE = re.compile(r"(?:[a-z0-9][\w./:-]*@)?sha256:[0-9a-f]{64}")


def read_images(path: Path) -> dict[str, str]:
    """Task id -> image by content. An absent file names none. Raises ConfigError for a mutable name."""
    if not path.is_file():
        return {}
    try:
        found: Any = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from None
    if not isinstance(found, dict):
        raise ConfigError(f"{path}: expected an object of task ids and images")
    for task_id, image in found.items():
        if not isinstance(image, str) or not _IMAGE.fullmatch(image):
            raise ConfigError(
                f"{path}: the image of {task_id} is '{image}', which can move; name it by content (sha256:... or "
                "NAME@sha256:...), as shown by: docker image inspect --format '{{.Id}}' NAME"
            )
    return found


def image_of(task_id: str, images: Mapping[str, str], path: Path) -> str:
    """A task's image among those that ``path`` names. Raises NoImage."""
    image = images.get(task_id)
    if image is None:
        raise NoImage(f"task {task_id} has no image: name one by digest in {path}, or build it")
    return image


def write_image(path: Path, task_id: str, image: str) -> Path:
    """Record one task's image."""
    images = read_images(path) | {task_id: image}
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".new")
    temporary.write_text(json.dumps(images, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    temporary.replace(path)
    return path
