"""From a model's name to something that answers: the one place that knows which adapter serves which name."""

import gc
import logging
import os
import threading
from collections.abc import Callable

from sessions_app.engine.model_names import DEMO, Choice, Given, check_name, missing_key, provider_choices, split_name
from sessions_app.worker.models.base import Model, ModelError

Stored = Callable[[str], Given | None]
_stored: Stored = lambda provider: None  # noqa: E731
_preloading: threading.Thread | None = None
_log = logging.getLogger(__name__)


def use_stored_keys(stored: Stored) -> None:
    """Ask `stored` for the key of a provider of which the environment has none."""
    global _stored
    _stored = stored


def open_model(name: str) -> Model:
    """The model of this name; raises `ModelError` (`model_unknown`, `key_missing`) with a sentence for people.

    May take seconds, for the library of a real provider.
    """
    fault = check_name(name)
    if fault is not None:
        raise ModelError("model_unknown", fault)
    if name == DEMO:
        from sessions_app.worker.models.demo import DemoModel

        return DemoModel()
    fault = missing_key(name, os.environ)
    given = None if fault is None else _stored(split_name(name)[0].name)
    if fault is not None and given is None:
        raise ModelError("key_missing", fault)
    if _preloading is not None and _preloading is not threading.current_thread():
        _preloading.join()
    # Late: loading the providers' libraries takes seconds, and only a worker with a real model needs them.
    from sessions_app.worker.models.providers import ProviderModel

    return ProviderModel(name, given)


def begin_preload() -> None:
    """Run `preload_providers` in a thread: the demonstration does not wait for it, a provider's model does.

    So no stream of a provider runs while it sets aside what was loaded: one that did would be set aside too, and its
    connection, which only the garbage collector may find once it is cancelled, would stay open (E6).
    """
    global _preloading
    _preloading = threading.Thread(target=preload_providers, name="preload", daemon=True)
    _preloading.start()


def preload_providers() -> None:
    """Load the libraries of all providers this process has a key for, 1 to 4 s of work, and set them aside.

    They are then no part of any later look for garbage. Each stopped stream asks for one, and with five libraries in it
    that took 0.3 to 0.6 s, in which no turn of this worker moved. What cannot be loaded is logged: a setting that is
    wrong for one provider must not end a worker that has others; the turn that needs it says what is wrong.
    """
    for choice in providers():
        if choice.present:
            try:
                open_model(choice.provider.example)
            except ModelError as error:
                _log.warning("%s", error.detail)
            except Exception:  # noqa: BLE001 (five foreign libraries, and whatever is wrong where they are installed)
                _log.exception("the library for %s cannot be loaded", choice.provider.name)
    gc.collect()
    gc.freeze()


def providers() -> tuple[Choice, ...]:
    """All providers, usable ones first, judged by this process's environment."""
    return provider_choices(os.environ)
