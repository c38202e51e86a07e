"""The pages. A view authorises, reads, words what it read and renders; without scripts a page reads and can stop."""

import os
from collections.abc import Mapping, Sequence
from ipaddress import ip_address
from typing import Any, Final, Literal
from urllib.parse import urlsplit
from uuid import UUID

import orjson
from django.conf import settings
from django.http import HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.utils.http import urlencode
from django.views.decorators.http import require_POST, require_safe

from sessions_app import control
from sessions_app.engine.errors import Refused
from sessions_app.engine.model_names import DEMO, PROVIDERS, usable
from sessions_app.engine.state import QueueChoice
from sessions_app.ids import new_id
from sessions_app.log import db, listing, read, watching
from sessions_app.log.frames import audience_of, instant
from sessions_app.models import Session
from sessions_app.pages import review, timeline, words
from sessions_app.pages.isolation import isolation_text
from sessions_app.pages.worded import role_in, worded
from sessions_app.people.authenticate import SignedInRequest
from sessions_app.people.members import members_of
from sessions_app.people.roles import CAN, Role

PAGE_EVENTS: Final = 400
"""How many of the newest events a session page is served with; earlier ones come as one scrolls up."""
PAGE_BYTES: Final = 1_500_000
"""And how many bytes of them at most, so that a page with long outputs opens as fast; never fewer than `PAGE_LEAST`."""
PAGE_LEAST: Final = 30
STOP_WAIT_S: Final = 2.0
"""How long the plain form waits, so that its page can say how the stop ended. The stop goes on regardless (E4)."""
STATES: Final = (
    ("", "All"),
    ("approval", "Approval"),
    ("running", "Running"),
    ("idle", "Nothing running"),
    ("closed", "Closed"),
)
MODES: Final = [{"name": name, "words": words.MODES[name], "note": words.MODE_NOTES[name]} for name in words.MODES]
_COLOURS: Final = {"approval": "waiting", "closing": "stopping", "waiting": "idle"}
"""A session's word as the stylesheet knows it: `waiting` is for a person, a wait for a worker is nothing running."""
STOP_NOTES: Final = {
    "idle": "Nothing was running, so nothing was stopped.",
    "joined": "It was being stopped already.",
    "not_started": "Nothing had started yet. What waited is paused.",
    "closing": "This session is closing already.",
    "background": "No agent was running. What runs in the background is being ended.",
}


@require_safe
@worded
def sessions(request: SignedInRequest) -> HttpResponse:
    """The session list: live once its script runs, searchable without."""
    q, state = request.GET.get("q", "").strip(), request.GET.get("state", "")
    found = listing.list_sessions(request.principal, state or None, q or None, request.GET.get("cursor") or None)
    ready = [provider for provider in PROVIDERS.values() if provider.keys and usable(provider, os.environ)]
    page = render(request, "sessions.html", {
        "items": [_listed(item) for item in found["items"]],
        "next": found["next"],
        "q": q,
        "state": state,
        "states": STATES,
        "ready": sorted({provider.title for provider in ready}),
        "models": [{"name": p.example, "title": p.title} for p in ready] + [{"name": DEMO, "title": "Demonstration"}],
        "suggested": ready[0].example if ready else DEMO,
        "modes": MODES,
        "usual_mode": "ask" if ready else "auto",
        "isolation_text": isolation_text(),
    })  # fmt: skip
    return _storable(request, page)


def _listed(item: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **item,
        "word": _COLOURS.get(item["state"], item["state"]),
        "words": words.STATES.get(item["state"], item["state"]),
        "demo": item.get("model") == DEMO,
    }


@require_safe
@worded
def session(request: SignedInRequest, session: UUID) -> HttpResponse:
    """One session: its newest events as a readable page, and the snapshot its script goes on from (L1)."""
    identity = str(session)
    role = role_in(request, session)
    row = Session.objects.get(pk=session)
    snapshot = read.snapshot(identity, audience_of(role))
    events, more = _newest(identity, snapshot["seq"], role)
    members = _members(identity, role)
    actor = request.principal.actor
    you = {"id": actor.id, "name": actor.name, "role": role, "can": sorted(CAN[role])}
    shown = {
        "id": identity, "title": row.title, "model": row.model, "workspace": row.workspace, "word": row.word,
        "demo": row.model == DEMO, "is": _COLOURS.get(row.word, row.word),
    }  # fmt: skip
    rules = listing.rules(request.principal, identity)
    primary = next((loop for loop in snapshot["state"]["loops"].values() if loop["parent"] is None), None)
    page = render(request, "session.html", {
        "session": shown,
        "you": you,
        "blocks": timeline.fold(
            events, snapshot["texts"], rules, {m["person"]: m["name"] for m in members}, snapshot["state"]["loops"]
        ),
        "rules": [_rule(rule) for rule in rules],
        "modes": MODES,
        "more": more,
        "described": words.described(row.word, snapshot["state"]),
        "mode": words.MODES.get(primary["mode"], primary["mode"]) if primary else "",
        "isolation_text": isolation_text(),
        "loopback": _is_loopback(urlsplit(settings.STEERWEB_URL or request.build_absolute_uri()).hostname or ""),
        "stop_note": STOP_NOTES.get(request.GET.get("stop", ""), "") or _late_note(request, events),
        "receipt": review.receipt(events, request.GET.get("stopped", "")),
        "boot": {
            "session": shown, "you": you, **snapshot, "events": events, "more": more, "rules": rules,
            "now": instant(watching.now()), "members": members,
        },
    })  # fmt: skip
    return _storable(request, page)


def _storable(request: SignedInRequest, page: HttpResponse) -> HttpResponse:
    """Say for whom a signed-in device may keep this page, to be shown while it has no connection."""
    if request.principal.device is not None:
        page.headers["X-Stored-For"] = str(request.principal.person)
    return page


def _is_loopback(host: str) -> bool:
    """Whether only this machine reaches itself by that name."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _rule(rule: Mapping[str, Any]) -> dict[str, Any]:
    said, code = words.rule_words(rule)
    return {**rule, "words": said, "code": code}


def _late_note(request: SignedInRequest, events: Sequence[Mapping[str, Any]]) -> str:
    """What became of an approval that the form without scripts answered too late; the typed note is given back."""
    gate, note = request.GET.get("late", ""), request.GET.get("note", "")
    ended = [event for event in events if event["type"] in ("GateResolved", "GateClosed")]
    end = next((event for event in ended if event["data"]["gate"] == gate), None)
    if end is None:
        return ""
    unsent = f" Your note was not sent: “{words.apart(note)}”" if note else ""
    return words.sentence(f"{words.answer_words(end)}. Your answer changed nothing.{unsent}")


def _members(session: str, role: Role) -> list[dict[str, str]]:
    """Who takes part, so that a change of it can be told by name. Observers are not told."""
    if role == "observer":
        return []
    with db.cursor("read") as cur:
        return [member.json() for member in members_of(cur, session)]


def _newest(session: str, seq: int, role: Role) -> tuple[list[dict[str, Any]], bool]:
    """The newest events up to `seq` that one page carries, in order, and whether there are earlier ones."""
    frames = read.events(session, before=seq + 1, limit=PAGE_EVENTS, order="desc", audience=audience_of(role))
    kept = _within(frames)
    events = [orjson.loads(frame) for frame in reversed(frames[:kept])]
    return events, bool(events) and events[0]["seq"] > 1


def _within(frames: Sequence[bytes]) -> int:
    size = 0
    for count, frame in enumerate(frames):
        size += len(frame)
        if size > PAGE_BYTES and count >= PAGE_LEAST:
            return count
    return len(frames)


@require_POST
@worded
def stop(request: SignedInRequest, session: UUID) -> HttpResponse:
    """Stop without a script: mark, wait a moment for the outcome, show the page with the receipt (E)."""
    identity = str(session)
    chosen = Session.objects.filter(pk=session).values_list("settings", flat=True).first() or {}
    # A session's own default is the server's to apply; without one the page's Stop pauses what waits (E12).
    queue: QueueChoice | None = None if "stop_queue" in chosen else "hold"
    receipt = control.interrupt(request.principal, identity, new_id(), queue=queue)
    try:
        control.wait_stopped(identity, receipt, STOP_WAIT_S)
    except Refused as refused:
        if refused.code != "deadline":
            raise
    shown = {"stopped": receipt["turns"][0]} if receipt["turns"] else {}
    said = "background" if receipt["note"] == "idle" and receipt.get("background") else receipt["note"]
    note = {"stop": said} if said in STOP_NOTES else {}
    query = urlencode({**shown, **note})
    return HttpResponseRedirect(f"/s/{identity}" + (f"?{query}" if query else ""))


@require_POST
@worded
def answer(request: SignedInRequest, session: UUID, gate: UUID) -> HttpResponse:
    """Answer an approval without a script: the first answer wins, a later one is shown who answered what (H1)."""
    identity, chosen, note = str(session), request.POST.get("answer", ""), request.POST.get("message", "")
    kind, _, value = chosen.partition(" ")
    rule = {"kind": kind, "value": value} if value else None
    decision: Literal["allow", "allow_rule", "deny"] = "deny"  # whatever was pressed: what is not allowed is denied
    if chosen == "allow":
        decision = "allow"
    elif chosen == "allow_rule" or rule is not None:
        decision = "allow_rule"
    message = note if decision == "deny" and note.strip() else None
    try:
        control.resolve(request.principal, identity, new_id(), str(gate), decision=decision, rule=rule, message=message)
    except Refused as refused:
        if refused.code != "gate_closed":
            raise
        return HttpResponseRedirect(
            f"/s/{identity}?{urlencode({'late': str(gate), **({'note': note} if note else {})})}"
        )
    return HttpResponseRedirect(f"/s/{identity}")
