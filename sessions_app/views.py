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
from sessions_app.engine.model_names import DEMO, PROVIDERS, Provider, usable
from sessions_app.engine.state import QueueChoice
from sessions_app.ids import new_id
from sessions_app.keys import stored
from sessions_app.log import db, listing, read, search, watching
from sessions_app.log.frames import audience_of, instant
from sessions_app.models import ListPlace, Session
from sessions_app.pages import review, timeline, words
from sessions_app.pages.isolation import isolation_text
from sessions_app.pages.worded import role_in, worded
from sessions_app.people.authenticate import SignedInRequest
from sessions_app.people.members import members_of
from sessions_app.people.roles import CAN, Role

PAGE_EVENTS: Final = 160
"""How many of the newest events a session page is served with; earlier ones come as one scrolls up."""
PAGE_BYTES: Final = 1_500_000
"""And how many bytes of them at most, so that a page with long outputs opens as fast; never fewer than `PAGE_LEAST`."""
PAGE_LEAST: Final = 30
STOP_WAIT_S: Final = 2.0
"""How long the plain form waits, so that its page can say how the stop ended. The stop goes on regardless (E4)."""
STOP_ALL_WAIT_S: Final = 5.0
MOST_Q: Final = 200
STATES: Final = (
    ("", "All"),
    ("approval", "Approval"),
    ("running", "Running"),
    ("idle", "Nothing running"),
    ("closed", "Closed"),
    ("archived", "Archived"),
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
    """The session list: live once its script runs, searchable and filtered without."""
    asked = {name: request.GET.get(name, "").strip() for name in ("q", "state", "person")}
    q, state, person = asked["q"][:MOST_Q], asked["state"], asked["person"]
    refused = ""
    try:
        cursor = request.GET.get("cursor") or None
        found = listing.list_sessions(request.principal, state or None, q or None, cursor, person=person or None)
    except Refused as problem:
        if problem.data.get("field") != "q":
            raise
        found, refused = {"items": [], "next": None}, problem.detail
    entered = stored.read_all()
    ready = [provider for provider in PROVIDERS.values() if provider.keys and _ready(provider, entered)]
    listed = [
        {"name": f"{PROVIDERS[stored.FAMILIES[one.provider]].name}:{name}", "title": "offered by the server"}
        for one in entered.values() for name in one.models
    ]  # fmt: skip
    recent = listing.recent(request.principal)
    offered = [{"name": p.example, "title": p.title} for p in ready] + [{"name": DEMO, "title": "Demonstration"}]
    known = {each["name"] for each in offered}
    used = [{"name": name, "title": "used lately"} for name in recent["models"] if name not in known]
    query = {name: value for name, value in asked.items() if value}
    starters = listing.starters(request.principal)
    page = render(request, "sessions.html", {
        "items": [_listed(item, state) for item in found["items"]],
        "next": urlencode({**query, "cursor": found["next"]}) if found["next"] else "",
        **asked,
        "refused": refused,
        "short": bool(q) and all(len(word) < search.SHORTEST for word in search.words_of(q)),
        "filtered": bool(query),
        "states": [{"words": said, "query": urlencode(_with(query, "state", value)), "on": value == state}
                   for value, said in STATES],
        "starters": starters,
        "person_id": next((one["id"] for one in starters if person.lower() in (one["name"].lower(), one["id"])), ""),
        "mine": len(control.stoppable(request.principal, "mine")),
        "all": len(control.stoppable(request.principal, "all")),
        "me": str(request.principal.person),
        "ready": sorted({provider.title for provider in ready}),
        "models": [*used, *offered, *(each for each in listed if each["name"] not in known)],
        "admin": request.principal.is_admin and request.principal.device is not None,
        "workspaces": recent["workspaces"],
        "suggested": (recent["models"] or [ready[0].example if ready else DEMO])[0],
        "modes": MODES,
        "usual_mode": "ask" if ready else "auto",
        "isolation_text": isolation_text(),
    })  # fmt: skip
    return _storable(request, page)


def _ready(provider: Provider, entered: Mapping[str, stored.Stored]) -> bool:
    """Whether there is what a provider needs: in this machine's environment, or entered on the page."""
    kept = entered.get(stored.family_of(provider.name) or "")
    return usable(provider, os.environ) or (kept is not None and kept.given is not None)


def _with(query: Mapping[str, str], name: str, value: str) -> dict[str, str]:
    """A query with one part changed, or without it where the value is empty."""
    return {key: each for key, each in {**query, name: value}.items() if each}


def _listed(item: Mapping[str, Any], state: str = "") -> dict[str, Any]:
    seconds = max(0, int((watching.now() - words.instant(item["since"])).total_seconds()))
    length = f"{seconds} s" if seconds < 60 else words.duration(seconds * 1000)
    clock = f", {length}" if item["state"] in words.CLOCKED else ""
    return {
        **item,
        "word": _COLOURS.get(item["state"], item["state"]),
        "words": words.sentence(words.doing(item) + clock),
        "demo": item.get("model") == DEMO,
        "filed": item.get("archived", False) and state != "archived",
        "hit": _hit(item),
    }


def _hit(item: Mapping[str, Any]) -> dict[str, Any] | None:
    """What was found in a message, in pieces: those that fit are marked."""
    hit = item.get("hit")
    if hit is None:
        return None
    pieces, at = [], 0
    for start, end in hit["marks"]:
        pieces += [{"text": hit["text"][at:start]}, {"text": hit["text"][start:end], "marked": True}]
        at = end
    pieces.append({"text": hit["text"][at:]})
    place = f"#turn-{hit['turn']}" if hit["turn"] else ""
    return {**hit, "pieces": pieces, "href": f"/s/{item['id']}{place}"}


@worded
def stop_all(request: SignedInRequest) -> HttpResponse:
    """Stop many sessions without a script: which and whose first, then what came of each (E1)."""
    scope: control.Scope = "all" if (request.POST or request.GET).get("scope") == "all" else "mine"
    if request.method != "POST":
        listed = [_listed(item) for item in listing.named(control.stoppable(request.principal, scope))]
        return render(request, "stop_all.html", {"scope": scope, "items": listed, "command": new_id()})
    try:
        named = [str(UUID(each)) for each in request.POST.getlist("session")]
        command = str(UUID(request.POST.get("command", "")))
    except ValueError:
        raise Refused("invalid", "This form was not complete. Go back and open it again.") from None
    reason = request.POST.get("reason", "").strip() or None
    asked = control.interrupt_many(request.principal, command, scope, sessions=named, reason=reason, otherwise="hold")
    done = {item["id"]: item for item in control.wait_many(asked, STOP_ALL_WAIT_S)}
    rows = [{**row, "outcome": words.stopped_words(done[row["id"]])[1]} for row in listing.named(list(done))]
    return render(request, "stop_all.html", {"scope": scope, "done": rows, "summary": words.stops_words(done.values())})


@require_safe
@worded
def parts(request: SignedInRequest) -> HttpResponse:
    """Every part of the screens in every state, for whoever works on them: administrators only."""
    if not request.principal.is_admin:
        raise Refused("not_found", "There is no such page.")
    return render(request, "parts.html")


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
        "demo": row.model == DEMO, "is": _COLOURS.get(row.word, row.word), **_place(request, identity),
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
            "session": shown, "you": you, **snapshot, "events": events, "rules": rules,
            "now": instant(watching.now()), "members": members,
        },
    })  # fmt: skip
    return _storable(request, page)


def _place(request: SignedInRequest, session: str) -> dict[str, bool]:
    """Where the reader keeps a session in their own list."""
    place = ListPlace.objects.filter(session_id=session, person=request.principal.person).first()
    return {"pinned": place is not None and place.pinned, "archived": place is not None and place.archived}


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
