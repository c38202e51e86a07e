"""Names of models and what is said about them: cheap, and in sentences for people."""

import asyncio
import logging
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from sessions_app.engine.model_names import MAX_NAME, PROVIDERS, check_name, missing_key, provider_choices
from sessions_app.log.secrets import configured, known, mask
from sessions_app.worker.models import providers as adapter
from sessions_app.worker.models import registry
from sessions_app.worker.models.base import ModelError, Request, estimate_usage
from sessions_app.worker.models.demo import DemoModel
from sessions_app.worker.models.registry import open_model, preload_providers, providers


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for provider in PROVIDERS.values():
        for key in provider.keys:
            monkeypatch.delenv(key, raising=False)
    yield
    known.cache_clear()  # the next test's process has other secrets


@pytest.mark.parametrize("name", [provider.example for provider in PROVIDERS.values()])
def test_every_example_is_a_name(name: str) -> None:
    assert check_name(name) is None


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("", "is not a model's name"),
        ("gpt-6-luna", "is not a model's name"),
        ("OpenAI:gpt", "is not a model's name"),
        ("openai-chat:two words", "is not a model's name"),
        ("openai-chat:line\n", "is not a model's name"),
        ("openai-chat:", "lacks the model behind the colon"),
        ("demo:fast", "without anything behind the colon"),
        ("opnai:gpt-6", "Did you mean 'openai'?"),
        ("zzz:gpt-6", "Known are: alibaba, anthropic"),
        ("openai-chat:" + "x" * MAX_NAME, "at most 200 characters"),
    ],
)
def test_what_is_no_name_is_told_why(name: str, says: str) -> None:
    fault = check_name(name)
    assert fault is not None
    assert says in fault
    with pytest.raises(ModelError) as error:
        open_model(name)
    assert (error.value.code, error.value.detail, error.value.retryable) == ("model_unknown", fault, False)


def test_a_missing_key_is_named() -> None:
    with pytest.raises(ModelError, match="set ANTHROPIC_API_KEY where the worker runs") as error:
        open_model("anthropic:claude-sonnet-5-5")
    assert error.value.code == "key_missing"
    assert missing_key("google:x", {"GEMINI_API_KEY": "k"}) is None
    assert missing_key("google:x", {"GEMINI_API_KEY": ""}) is not None
    assert missing_key("openai-chat:x", {"OPENAI_BASE_URL": "http://127.0.0.1:1/v1"}) is None


def test_the_demonstration_needs_no_key() -> None:
    assert isinstance(open_model("demo:"), DemoModel)


def test_the_form_shows_usable_providers_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k" * 20)
    present = [choice.provider.name for choice in providers() if choice.present]
    assert present == ["demo", "anthropic"]
    assert [choice.provider.name for choice in providers()][:2] == present
    assert len(provider_choices({})) == len(PROVIDERS)


def test_every_provider_can_be_built_with_what_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The table may not promise a provider whose library is missing or which pydantic-ai calls otherwise."""
    for provider in PROVIDERS.values():
        for key in provider.keys:
            monkeypatch.setenv(key, "http://127.0.0.1:1/v1" if key.endswith("_URL") else "k" * 20)
    for provider in PROVIDERS.values():
        open_model(provider.example)
    preload_providers()


@pytest.mark.parametrize("address", ["http://host:port/v1", "http://[::1/v1", "http://a\nb/v1"])
def test_an_address_that_no_library_takes_is_told_where_it_is_used_and_stops_nothing_else(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, address: str
) -> None:
    """Each library has its own exception for it, and some of them have no parent but `Exception`."""
    adapter._load_library.cache_clear()
    monkeypatch.setenv("OPENAI_BASE_URL", address)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k" * 20)
    with caplog.at_level(logging.WARNING):
        preload_providers()
    assert "OpenAI cannot be used" in caplog.text and "Anthropic" not in caplog.text
    assert isinstance(open_model("demo:"), DemoModel)
    open_model("anthropic:claude-sonnet-5-5")
    with pytest.raises(ModelError, match=r"^model_unknown: OpenAI cannot be used .*OPENAI_BASE_URL") as error:
        open_model("openai-chat:gpt-6-luna")
    assert not error.value.retryable


def test_whatever_goes_wrong_with_one_provider_is_logged_and_the_next_is_loaded(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k" * 20)
    monkeypatch.setenv("GOOGLE_API_KEY", "k" * 20)
    asked: list[str] = []

    def broken(name: str) -> None:
        asked.append(name)
        raise RuntimeError("half an installation")

    monkeypatch.setattr(registry, "open_model", broken)
    preload_providers()
    assert len(asked) == 3 and caplog.text.count("half an installation") >= 2


async def test_while_the_libraries_load_the_demonstration_answers_and_a_providers_model_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A stream that runs while the loaded libraries are set aside would be set aside with them, and once cancelled
    never be found (E6)."""
    monkeypatch.setenv("OPENAI_API_KEY", "k" * 20)
    loaded = threading.Event()
    monkeypatch.setattr(registry, "_preloading", None)
    monkeypatch.setattr(registry, "preload_providers", lambda: loaded.wait(60))
    registry.begin_preload()
    waiting = asyncio.create_task(asyncio.to_thread(open_model, "openai-chat:gpt-6-luna"))
    assert isinstance(await asyncio.to_thread(open_model, "demo:"), DemoModel)
    with pytest.raises(ModelError):
        open_model("anthropic:claude-sonnet-5-5")
    assert not waiting.done()
    loaded.set()
    await waiting


def test_what_was_loaded_is_set_aside_from_the_garbage_collector() -> None:
    code = (
        "import gc, os, sys, sessions_app.worker.models.registry as r;"
        "os.environ['OPENAI_API_KEY'] = 'k' * 20; r.begin_preload(); r.open_model('openai-chat:m');"
        "sys.exit(gc.get_freeze_count() < 5 * len(gc.get_objects()) or 'openai' not in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_neither_names_nor_the_demonstration_load_a_provider() -> None:
    code = (
        "import sys, sessions_app.worker.models.registry as r;"
        "r.open_model('demo:'); r.providers(); r.preload_providers();"
        "sys.exit(any(name.split('.')[0] in ('pydantic_ai', 'openai', 'django') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.rule("A6")
def test_secrets_are_masked_unless_they_are_short() -> None:
    environ = {
        "OPENAI_API_KEY": "sk-0123456789",
        "DB_PASSWORD": "sk-0123456789-and-more",
        "SHORT_TOKEN": "1234567",
        "KEYBOARD": "a-long-value-of-no-secret",
        "GITHUB_TOKEN": "ghp_0123456789",
        "AWS_SECRET_ACCESS_KEY": "aws/0123456789",
        "DATABASE_URL": "postgresql://ana:pass%40word1@db.example/steerweb",
        "REDIS_URL": "redis://:redis-pass@localhost:6379/0",
        "OTHER_URL": "postgresql://steerweb:steerweb@db/steerweb",
    }
    secrets = configured(environ)
    assert secrets == (
        "sk-0123456789-and-more", "aws/0123456789", "ghp_0123456789", "sk-0123456789", "pass%40word1", "pass@word1",
        "redis-pass",
    )  # fmt: skip
    assert mask("x sk-0123456789-and-more y sk-0123456789 1234567", secrets) == "x *** y *** 1234567"


def test_usage_of_a_cut_off_call_is_an_estimate() -> None:
    usage = estimate_usage(Request("demo:", "x" * 40, ()), "y" * 9)
    assert (usage.input_tokens, usage.output_tokens, usage.estimated) == (10, 3, True)
