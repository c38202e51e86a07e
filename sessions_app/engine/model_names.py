"""Names of models, `provider:model`, as pydantic-ai spells them, checked without loading any provider."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Final

DEMO: Final = "demo:"
"""The scripted demonstration; it has a provider's name and no model's."""

MAX_NAME: Final = 200
_NAME: Final = re.compile(r"(?P<provider>[a-z0-9][a-z0-9-]*):(?P<model>\S*)")


@dataclass(frozen=True, slots=True)
class Provider:
    """One provider of models. Any one of the variables in `keys` (a key, a server's address) makes it usable.

    `title` is its name for people, `note` what a form adds to it.
    """

    name: str
    title: str
    keys: tuple[str, ...] = ()
    example: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Given:
    """What a provider is called with where the environment says nothing: a key, and an address unless it is its own."""

    key: str = field(repr=False)
    base_url: str = ""


_OPENAI_KEYS: Final = ("OPENAI_API_KEY", "OPENAI_BASE_URL")
_PROVIDERS: Final = (
    Provider("demo", "Demonstration", (), DEMO, "scripted, without a language model"),
    Provider("openai-chat", "OpenAI", _OPENAI_KEYS, "openai-chat:gpt-6-luna", "or a compatible server"),
    Provider("openai-responses", "OpenAI", _OPENAI_KEYS, "openai-responses:gpt-6-luna", "Responses API"),
    Provider("openai", "OpenAI", _OPENAI_KEYS, "openai:gpt-6-luna", "Responses API"),
    Provider("anthropic", "Anthropic", ("ANTHROPIC_API_KEY",), "anthropic:claude-sonnet-5-5"),
    Provider("google", "Google", ("GOOGLE_API_KEY", "GEMINI_API_KEY"), "google:gemini-3.8-flash"),
    Provider("alibaba", "Alibaba Cloud", ("ALIBABA_API_KEY", "DASHSCOPE_API_KEY"), "alibaba:qwen-plus"),
    Provider("cerebras", "Cerebras", ("CEREBRAS_API_KEY",), "cerebras:gpt-oss-120b"),
    Provider("deepseek", "DeepSeek", ("DEEPSEEK_API_KEY",), "deepseek:deepseek-chat"),
    Provider("fireworks", "Fireworks", ("FIREWORKS_API_KEY",), "fireworks:accounts/fireworks/models/qwen3-8b"),
    Provider("moonshotai", "Moonshot AI", ("MOONSHOTAI_API_KEY",), "moonshotai:kimi-k2-0711-preview"),
    Provider("ollama", "Ollama", ("OLLAMA_BASE_URL",), "ollama:qwen3"),
    Provider("openrouter", "OpenRouter", ("OPENROUTER_API_KEY",), "openrouter:openai/gpt-5-mini"),
    Provider("together", "Together AI", ("TOGETHER_API_KEY",), "together:openai/gpt-oss-20b"),
    Provider("vllm", "vLLM", ("VLLM_BASE_URL",), "vllm:Qwen/Qwen3-8B"),
)
PROVIDERS: Final[Mapping[str, Provider]] = {provider.name: provider for provider in _PROVIDERS}


def split_name(name: str) -> tuple[Provider, str]:
    """The provider and the model's own name of a name that `check_name` has nothing against."""
    provider, _, model = name.partition(":")
    return PROVIDERS[provider], model


def check_name(name: str) -> str | None:
    """One sentence saying why this is no model's name, or None. Whether the model exists, only its provider knows."""
    if len(name) > MAX_NAME:
        return f"A model's name has at most {MAX_NAME} characters; this one has {len(name)}."
    match = _NAME.fullmatch(name)
    if match is None:
        return f"{name!r} is not a model's name; one looks like {PROVIDERS['openai-chat'].example!r}, or {DEMO!r}."
    provider = match["provider"]
    if provider not in PROVIDERS:
        close = get_close_matches(provider, PROVIDERS, n=1)
        hint = f"Did you mean {close[0]!r}?" if close else f"Known are: {', '.join(sorted(PROVIDERS))}."
        return f"There is no model provider called {provider!r}. {hint}"
    if provider == "demo":
        return None if name == DEMO else f"The demonstration is called {DEMO!r}, without anything behind the colon."
    if not match["model"]:
        return f"{name!r} lacks the model behind the colon; try {PROVIDERS[provider].example!r}."
    return None


_ENTER: Final = " Keys of OpenAI, Anthropic and Google can be entered by an administrator under Models."


def missing_key(name: str, environ: Mapping[str, str]) -> str | None:
    """One sentence naming the variable this model's provider needs and `environ` lacks, or None."""
    provider, _ = split_name(name)
    if usable(provider, environ):
        return None
    names = " or ".join(provider.keys)
    return f"There is no key for {provider.title}: set {names} where the worker runs and restart it.{_ENTER}"


@dataclass(frozen=True, slots=True)
class Choice:
    """One line of the new-session form: a provider, and whether what it needs is present."""

    provider: Provider
    present: bool


def provider_choices(environ: Mapping[str, str]) -> tuple[Choice, ...]:
    """All providers for the new-session form, usable ones first."""
    choices = [Choice(provider, usable(provider, environ)) for provider in PROVIDERS.values()]
    return tuple(sorted(choices, key=lambda choice: not choice.present))


def usable(provider: Provider, environ: Mapping[str, str]) -> bool:
    """Whether `environ` has what this provider needs; a variable that is set but empty counts as missing."""
    return not provider.keys or any(environ.get(key) for key in provider.keys)
