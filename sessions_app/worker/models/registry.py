"""From a model's name to something that answers: the one place that knows which adapter serves which name."""

import os
from contextlib import suppress

from sessions_app.engine.model_names import DEMO, Choice, check_name, missing_key, provider_choices
from sessions_app.worker.models.base import Model, ModelError


def open_model(name: str) -> Model:
    """The model of this name; raises `ModelError` (`model_unknown`, `key_missing`) with a sentence for people."""
    fault = check_name(name)
    if fault is not None:
        raise ModelError("model_unknown", fault)
    if name == DEMO:
        from sessions_app.worker.models.demo import DemoModel

        return DemoModel()
    fault = missing_key(name, os.environ)
    if fault is not None:
        raise ModelError("key_missing", fault)
    # Late: loading the providers' libraries takes seconds, and only a worker with a real model needs them.
    from sessions_app.worker.models.providers import ProviderModel

    return ProviderModel(name)


def preload_providers() -> None:
    """Load the libraries of all providers this process has a key for: 1 to 4 s of work, before any turn."""
    for choice in providers():
        if choice.present:
            with suppress(ModelError):  # the turn that needs it will say what is wrong
                open_model(choice.provider.example)


def providers() -> tuple[Choice, ...]:
    """All providers, usable ones first, judged by this process's environment."""
    return provider_choices(os.environ)
