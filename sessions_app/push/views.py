"""The page `/notifications`, and what a browser tells of its subscription."""

from collections.abc import Callable
from datetime import time
from functools import wraps
from http import HTTPStatus
from typing import Any, Final
from uuid import UUID

import orjson
from django.conf import settings
from django.db import connection
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.middleware.csrf import get_token
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET, require_http_methods, require_POST, require_safe

from sessions_app.engine.errors import Refused
from sessions_app.log import watching
from sessions_app.log.frames import instant
from sessions_app.models import Member, PushChoice, PushSettings, PushSubscription
from sessions_app.people import roles
from sessions_app.people.views import Me, in_person
from sessions_app.push.keys import public_key
from sessions_app.push.quiet import zones
from sessions_app.push.sending import Subscription, send
from sessions_app.push.subscriptions import subscribe, unsubscribe

KINDS: Final = (
    ("approval", "An approval waits", "With Allow and Deny on the notification itself."),
    ("ended", "A turn ended", "The agent is done and waits for you."),
    ("failed", "A turn failed", "Or it was ended by a limit, or lost its worker."),
    ("stopped", "A turn was stopped", "By somebody else. Your own stops are not told to you."),
    ("budget", "A limit is near", "Four fifths of what a turn, or a day, may use are used."),
    ("silent", "Nothing happens any more", "Something runs, and nothing has happened for a while."),
)
LEVELS: Final = (("all", "Everything"), ("asks", "Approvals and failures"), ("nothing", "Nothing"))
LISTED: Final = 30
SILENT_MAX_MIN: Final = 24 * 60


def _as_problem(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    """Refusals as the scripts read them."""

    @wraps(view)
    def inner(*args: Any, **kwargs: Any) -> HttpResponse:
        try:
            return view(*args, **kwargs)
        except Refused as refused:
            return JsonResponse({"code": refused.code, "detail": refused.detail}, status=refused.status)

    return inner


@require_safe
@in_person
def page(request: HttpRequest, me: Me) -> HttpResponse:
    """What I am told, on which device, and when not."""
    mine = PushSettings.objects.filter(pk=me.person).first() or PushSettings(person_id=me.person)
    levels = {str(choice.session_id): choice.level for choice in PushChoice.objects.filter(person_id=me.person)}
    members = Member.objects.filter(person_id=me.person).exclude(session__word="closed").select_related("session")
    listed = []
    for member in members.order_by("-session__active_at")[:LISTED]:
        identity, usual = str(member.session_id), "all" if member.session.created_by_id == me.person else "nothing"
        listed.append({"id": identity, "title": member.session.title, "level": levels.get(identity, usual)})
    return render(request, "notifications.html", {
        "kinds": [(name, words, note, name not in mine.unwanted) for name, words, note in KINDS],
        "levels": LEVELS,
        "sessions": listed,
        "mine": mine,
        "quiet": mine.quiet_from is not None,
        "key": public_key(settings.SECRET_KEY),
        "subscribed": PushSubscription.objects.filter(device_id=me.device).exists(),
        "saved": "saved" in request.GET,
    })  # fmt: skip


@require_GET
@_as_problem
@in_person
def ready(request: HttpRequest, me: Me) -> HttpResponse:
    """What a service worker needs before it acts for its person: a CSRF token, the server's time, the push key.

    Only this site's own scripts can read it, so it gives nothing that a page does not have.
    """
    now = instant(watching.now())
    return JsonResponse({"csrf": get_token(request), "now": now, "key": public_key(settings.SECRET_KEY)})


@require_http_methods(["POST", "DELETE"])
@_as_problem
@in_person
def device(request: HttpRequest, me: Me) -> HttpResponse:
    """Tell this device, or tell it no more."""
    if request.method == "DELETE":
        unsubscribe(me.device)
        return HttpResponse(status=HTTPStatus.NO_CONTENT)
    body = _object(request)
    keys = body.get("keys")
    found = keys if isinstance(keys, dict) else {}
    subscribe(me.device, body.get("endpoint"), found.get("p256dh"), found.get("auth"))
    return HttpResponse(status=HTTPStatus.NO_CONTENT)


@require_POST
@_as_problem
@in_person
def test(request: HttpRequest, me: Me) -> HttpResponse:
    """Send this device a message now; what the push service says is what the page says."""
    row = PushSubscription.objects.filter(device_id=me.device).first()
    if row is None:
        raise Refused("not_found", "This device is not told anything yet. Turn it on first.")
    payload = {
        "kind": "test", "session": "", "seq": 0, "title": "steerweb", "body": "Notifications reach this device.",
        "url": "/notifications",
    }  # fmt: skip
    answer = send(Subscription(str(row.pk), row.endpoint, row.p256dh, row.auth), payload, "test")
    if answer.is_ == "sent":
        return HttpResponse(status=HTTPStatus.NO_CONTENT)
    if answer.is_ == "gone":
        row.delete()
        raise Refused("not_found", "The push service does not know this device any more. Turn it off and on again.")
    raise Refused("unavailable", f"The push service did not take it: {answer.note}.")


@require_POST
@in_person
def save(request: HttpRequest, me: Me) -> HttpResponse:
    """Keep what I chose; what is not understood is left out rather than refused, the page shows what holds."""
    form = request.POST
    start, end = _time(form.get("quiet_from", "")), _time(form.get("quiet_to", ""))
    quiet = "quiet" in form and start is not None and end is not None and start != end
    zone = form.get("zone", "")
    silent = form.get("silent_min", "")
    chosen = {
        "unwanted": [name for name, _, _ in KINDS if name not in form.getlist("kind")],
        "quiet_from": start if quiet else None,
        "quiet_to": end if quiet else None,
        "zone": zone if zone in zones() else "UTC",
        "silent_min": min(int(silent), SILENT_MAX_MIN) if silent.isascii() and silent.isdigit() and int(silent) else 10,
    }
    PushSettings.objects.update_or_create(person_id=me.person, defaults=chosen)
    known = {str(found) for found in Member.objects.filter(person_id=me.person).values_list("session_id", flat=True)}
    for name, level in form.items():
        _, _, session = name.partition("session-")
        if session in known and level in dict(LEVELS):
            _choose(me.person, UUID(session), str(level))
    return redirect("/notifications?saved")


@require_http_methods(["GET", "POST"])
@_as_problem
@in_person
def session(request: HttpRequest, me: Me, session: UUID) -> HttpResponse:
    """What I am told of one session: `{level, device}`; `device`: whether this device is told anything."""
    with connection.cursor() as cursor:
        roles.require(cursor, me.principal, session, "read")
    if request.method == "POST":
        level = _object(request).get("level")
        if level not in dict(LEVELS):
            raise Refused("invalid", f"`level` is one of {', '.join(dict(LEVELS))}.", field="level")
        _choose(me.person, session, level)
    choice = PushChoice.objects.filter(person_id=me.person, session_id=session).first()
    own = Member.objects.filter(person_id=me.person, session_id=session, session__created_by=me.person).exists()
    level = choice.level if choice is not None else "all" if own else "nothing"
    told = PushSubscription.objects.filter(device_id=me.device).exists()
    return JsonResponse({"level": level, "device": told})


def _choose(person: UUID, session: UUID, level: str) -> None:
    PushChoice.objects.update_or_create(person_id=person, session_id=session, defaults={"level": level})


def _object(request: HttpRequest) -> dict[str, Any]:
    try:
        value = orjson.loads(request.body)
    except orjson.JSONDecodeError:
        value = None
    if not isinstance(value, dict):
        raise Refused("invalid", "The body is a JSON object.")
    return value


def _time(text: str) -> time | None:
    try:
        return time.fromisoformat(text)
    except ValueError:
        return None
