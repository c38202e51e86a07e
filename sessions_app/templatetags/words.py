"""Template filters: the same words on every served page."""

import shlex
from typing import Any

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString

from sessions_app.pages import words
from steerweb import runtime

register = template.Library()
register.filter("duration", words.duration)
register.filter("hue", words.hue)
register.filter("initials", words.initials)
register.filter("actor_name", words.actor_name)
register.filter("from_device", words.from_device)
register.filter("money", words.money)
register.filter("phase_words", lambda phase: words.PHASES.get(phase, phase))
register.filter("cause_words", lambda cause: words.CAUSES.get(cause, cause))
register.filter("without_person", lambda cause: words.WITHOUT_PERSON.get(cause, "the system"))
register.filter("ended_by_words", lambda by: words.ENDED_BY.get(by, by))
register.filter("state_words", lambda word: words.STATES.get(word, word))


@register.simple_tag
def shown(arguments: str, name: str = "") -> str:
    """One of our commands as one has to type it on this machine, `NAME` replaced; for signed-in people only."""
    return runtime.shown(arguments.replace("NAME", shlex.quote(name)) if name else arguments)


@register.filter
def counted(n: int, nouns: str) -> str:
    """`{{ n|counted:"process,processes" }}`."""
    one, _, many = nouns.partition(",")
    return words.counted(n, one, many or None)


@register.filter
def when(at: Any, shape: str = "time") -> SafeString:
    """A `time` element, in UTC until `times.js` rewrites it in the reader's zone. `shape`: time, seconds or ago."""
    moment = words.instant(at)
    return format_html(
        '<time datetime="{}" title="{}" data-shape="{}" class="num">{}</time>',
        moment.isoformat(), words.utc(moment), shape, words.utc(moment)[:19],
    )  # fmt: skip
