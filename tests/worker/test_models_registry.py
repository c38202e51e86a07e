"""Names of models and what is said about them: cheap, and in sentences for people."""

import subprocess
import sys

import pytest

from sessions_app.engine.model_names import MAX_NAME, PROVIDERS, check_name, missing_key, provider_choices
from sessions_app.log.secrets import configured, mask
from sessions_app.worker.models.base import ModelError, Request, estimate_usage
from sessions_app.worker.models.demo import DemoModel
from sessions_app.worker.models.registry import open_model, preload_providers, providers


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for provider in PROVIDERS.values():
        for key in provider.keys:
            monkeypatch.delenv(key, raising=False)


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
