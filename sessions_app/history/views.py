"""The pages about stops: every one in a table, and each in full."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

import orjson
from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from sessions_app.control.stopping import REASON_AGE
from sessions_app.log import listing, read, stops, watching
from sessions_app.log.frames import audience_of
from sessions_app.models import Session
from sessions_app.pages import review, words
from sessions_app.pages.stops import entry, facts, part
from sessions_app.pages.worded import role_in, worded
from sessions_app.people.authenticate import SignedInRequest
from sessions_app.people.roles import CAN, Role

CAUSES: Final = (
    ("", "All"),
    ("person", "By a person"),
    ("worker_lost", "Worker died"),
    ("worker_shutdown", "Worker shut down"),
)
FILTERS: Final = ("person", "cause", "reason", "q", "cursor")
AROUND_BEFORE: Final = 60
AROUND_AFTER: Final = 20
"""How many events before and after a stop its page looks at."""
LOOK_FOR_PAUSES: Final = 200


@require_safe
@worded
def interruptions(request: SignedInRequest) -> HttpResponse:
    """Every stop in the sessions one may read, the newest first."""
    return render(request, "interruptions.html", _stops(request, None))


@require_safe
@worded
def session_interruptions(request: SignedInRequest, session: UUID) -> HttpResponse:
    """The stops of one session, the newest first."""
    role_in(request, session)
    return render(request, "interruptions.html", _stops(request, Session.objects.get(pk=session)))


def _stops(request: SignedInRequest, session: Session | None) -> dict[str, Any]:
    """The table's context. Filters are the API's and stand in the address, so that a view of it can be shared."""
    query = {name: request.GET[name].strip() for name in FILTERS if request.GET.get(name)}
    found = stops.stops(
        request.principal,
        session=str(session.pk) if session else None,
        person=query.get("person"),
        cause=query.get("cause"),
        reason=query.get("reason"),
        q=query.get("q"),
        cursor=query.get("cursor"),
        start=_instant(request.GET.get("from", "")),
        end=_instant(request.GET.get("to", "")),
    )
    return {
        "items": [entry(stop) for stop in found["items"]],
        "next": found["next"],
        "query": query,
        "causes": CAUSES,
        "session": {"id": str(session.pk), "title": session.title} if session else None,
    }


def _instant(text: str) -> datetime | None:
    """An instant of the address; one without a zone is UTC, and one that is none filters nothing."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


@require_safe
@worded
def interruption(request: SignedInRequest, interruption: UUID) -> HttpResponse:
    """One stop, with everything its terminal holds, in words."""
    found = listing.interruption(request.principal, str(interruption))
    stop = stops.stop_of(request.principal, found)
    item = part(next(turn for turn in stop["turns"] if turn["id"] == found["id"]))
    whole = entry(stop)
    role = role_in(request, item["session"])
    events = _around(item, role)
    terminal = next(event for event in events if event["type"] == "TurnInterrupted" and event["turn"] == item["id"])
    data = terminal["data"]
    reason = whole["reason"] or words.text_of(data.get("reason"))
    cut = data.get("cut_off") or {}
    chosen, word = Session.objects.values_list("settings", "word").get(pk=item["session"])
    return render(request, "interruption.html", {
        "item": item,
        "data": data,
        "reason": reason,
        "may_reason": whole["id"] if _may_reason(request, item) else "",
        "headline": words.sentence(
            words.stopped_by(data, item["actor"] if item["by_somebody"] else None)
        ),
        "limit": words.limit_words(data),
        "whole": whole,
        "facts": facts(whole["numbers"], data["phase"], data.get("grace_ms")),
        "grace_ms": data.get("grace_ms"),
        "processes": data["processes"],
        "background": [each for each in whole["kills"] if each["loop"] == item["loop"]],
        "approvals": review.approvals(events, data["gates"]),
        "closed": _closed(stop, item["session"], events),
        "waiting": _fates(data, _paused(item, role) if data["inputs"]["kept"] or data["steers"]["kept"] else set()),
        "usage": ", ".join(f"{value:,} {name.replace('_', ' ')}" for name, value in (data.get("usage") or {}).items()),
        "axis": review.axis(events, item["id"], data.get("request")),
        "cut_text": words.text_of(cut.get("text")),
        "cut_reasoning": words.text_of(cut.get("reasoning")),
        "told": bool(chosen.get("keep_partial_reply")),
        "goes_on": "submit" in CAN[role] and word not in ("closing", "closed"),
    })  # fmt: skip


def _may_reason(request: SignedInRequest, item: Mapping[str, Any]) -> bool:
    """Whether the reader asked for this stop, a day ago at most: then its reason is theirs to say (B6)."""
    mine = item["asked_for"] and item["actor"]["id"] == request.principal.actor.id
    return bool(mine) and (watching.now() - words.instant(item["at"])) < REASON_AGE


def _around(item: Mapping[str, Any], role: Role) -> list[dict[str, Any]]:
    """The events up to the terminal, and the first ones after it, in order."""
    audience = audience_of(role)
    seq = item["seq"]
    before = read.events(item["session"], before=seq + 1, limit=AROUND_BEFORE, order="desc", audience=audience)
    after = read.events(item["session"], after=seq, limit=AROUND_AFTER, audience=audience)
    return [orjson.loads(frame) for frame in (*reversed(before), *after)]


def _closed(stop: Mapping[str, Any], session: str, events: list[dict[str, Any]]) -> list[tuple[str, list[str]]]:
    """The approvals that a stop of several agents closed in this session, by the agent that had asked."""
    asked = [turn for turn in stop["turns"] if turn["session"] == session and turn["gates"]]
    if len(stop["turns"]) < 2:
        return []
    return [(part(turn)["agent"], review.approvals(events, turn["gates"])) for turn in asked]


def _paused(item: Mapping[str, Any], role: Role) -> set[str]:
    """The messages that were paused before that turn ended; who ended it may have left them so."""
    types = ["InputHeld", "InputReleased"]
    newest = read.events(
        item["session"], before=item["seq"], limit=LOOK_FOR_PAUSES, types=types, order="desc",
        audience=audience_of(role),
    )  # fmt: skip
    last: dict[str, bool] = {}
    for event in map(orjson.loads, newest):
        for each in (*event["data"]["inputs"], *event["data"]["steers"]):
            last.setdefault(each, event["type"] == "InputHeld")
    return {each for each, paused in last.items() if paused}


def _fates(data: Mapping[str, Any], paused: set[str]) -> str:
    """What became of what waited, in one line."""
    inputs, steers = data["inputs"], data.get("steers") or {}
    kept = [*inputs["kept"], *steers.get("kept", ())]
    still = sum(each in paused for each in kept)
    held = len(inputs["held"]) + len(steers.get("held", ()))
    cancelled = len(inputs["cancelled"]) + len(steers.get("withdrawn", ()))
    fates = (
        ("left as it was" if len(kept) == 1 else "left as they were", len(kept)),
        ("paused", held),
        ("given back or dropped", cancelled),
    )
    said = [f"{words.counted(n, 'message')} {fate}" for fate, n in fates if n] or ["none waited"]
    if still:
        said[0] += ", paused" if still == len(kept) else f" ({still} paused)"
    return ", ".join(said)
