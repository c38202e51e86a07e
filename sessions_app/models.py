"""The tables. People and devices are written through the ORM; everything under a session's lock is written in plain
SQL by `sessions_app.log` (the ORM costs six times as much there), and these classes only serve pages and admin."""

from typing import ClassVar

from django.contrib.auth.models import AbstractUser
from django.db import models
from django.db.models.functions import Now

from sessions_app.ids import uuid7


class Person(AbstractUser):
    """An account. There are no passwords: one signs in by a one-time link."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    REQUIRED_FIELDS: ClassVar[list[str]] = []

    class Meta:
        db_table = "person"


class Device(models.Model):
    """A browser that is signed in; it stays so for 90 days of use, and signing it out deletes its Django session."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    person = models.ForeignKey(Person, models.CASCADE, related_name="devices")
    session_key = models.CharField(max_length=40, unique=True)
    kind = models.CharField(max_length=16)
    name = models.CharField(max_length=120)
    created_at = models.DateTimeField(db_default=Now())
    last_used_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "device"


class SignInLink(models.Model):
    """A link that signs somebody in once. Only the digest of its secret is stored."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    person = models.ForeignKey(Person, models.CASCADE)
    digest = models.BinaryField(unique=True)
    next = models.CharField(max_length=300, default="/")
    created_at = models.DateTimeField(db_default=Now())
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "signin_link"


class Token(models.Model):
    """A bearer token of a person, or of an agent of theirs (`agent`: its commands are of machine agency, A5)."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    person = models.ForeignKey(Person, models.CASCADE, related_name="tokens")
    name = models.CharField(max_length=120)
    digest = models.BinaryField(unique=True)
    agent = models.BooleanField(default=False)
    created_at = models.DateTimeField(db_default=Now())
    last_used_at = models.DateTimeField(null=True)
    revoked_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "api_token"


class Session(models.Model):
    """What people open, watch and steer together. The row is the lock; `state` caches the fold of the log (A2)."""

    id = models.UUIDField(primary_key=True, editable=False)
    created_by = models.ForeignKey(Person, models.PROTECT)
    created_at = models.DateTimeField()
    title = models.TextField()
    workspace = models.TextField()
    model = models.TextField()
    settings = models.JSONField()
    head = models.BigIntegerField(help_text="seq of the newest event")
    chain = models.BinaryField(help_text="link of the newest event")
    state = models.JSONField()
    fold = models.IntegerField(help_text="version of the fold that made `state`")
    word = models.CharField(max_length=16, help_text="idle, waiting, running, stopping, closing, closed")
    word_since = models.DateTimeField()
    active_at = models.DateTimeField(help_text="time of the newest event")
    runnable = models.BooleanField(default=False, help_text="an idle loop has an input that may run")

    class Meta:
        db_table = "session"
        indexes = (models.Index(fields=["id"], name="session_runnable", condition=models.Q(runnable=True)),)


class Member(models.Model):
    """Who may do what in a session: `owner`, `operator` or `observer`."""

    pk = models.CompositePrimaryKey("session_id", "person_id")
    session = models.ForeignKey(Session, models.CASCADE, related_name="members")
    person = models.ForeignKey(Person, models.CASCADE)
    role = models.CharField(max_length=16)

    class Meta:
        db_table = "member"


class ListPlace(models.Model):
    """Where somebody keeps a session in their own list: pinned on top, or archived out of it. No history, and no row
    where neither is so."""

    pk = models.CompositePrimaryKey("session_id", "person_id")
    session = models.ForeignKey(Session, models.CASCADE, related_name="+")
    person = models.ForeignKey(Person, models.CASCADE, related_name="+")
    pinned = models.BooleanField(db_default=False)
    archived = models.BooleanField(db_default=False)

    class Meta:
        db_table = "list_place"


class ProviderKey(models.Model):
    """A model provider's key that was entered on the page, encrypted, and what its last test said."""

    provider = models.CharField(max_length=32, primary_key=True)
    sealed = models.BinaryField(help_text="the key, encrypted; empty where a server asks for none")
    ending = models.CharField(max_length=4, default="")
    base_url = models.TextField(default="")
    set_at = models.DateTimeField(db_default=Now())
    set_by = models.ForeignKey(Person, models.SET_NULL, null=True, related_name="+")
    tested_at = models.DateTimeField(null=True)
    works = models.BooleanField(null=True)
    told = models.TextField(default="", help_text="what the provider answered to the test, in words")
    models = models.JSONField(default=list, help_text="names of models, as the test found them")

    class Meta:
        db_table = "provider_key"


class File(models.Model):
    """A file that was uploaded for a message. `seq` is the event that named it first, a projection of the log; erasing
    an event that names it deletes the row (A3)."""

    id = models.UUIDField(primary_key=True, editable=False)
    session = models.ForeignKey(Session, models.CASCADE, related_name="+")
    person = models.ForeignKey(Person, models.SET_NULL, null=True, related_name="+")
    name = models.TextField()
    size = models.IntegerField(help_text="bytes")
    type = models.CharField(max_length=64, help_text="as its bytes say")
    content = models.BinaryField()
    at = models.DateTimeField(db_default=Now())
    seq = models.BigIntegerField(null=True, help_text="the event that named it first")

    class Meta:
        db_table = "file"
        indexes = (models.Index(fields=["at"], name="file_unnamed", condition=models.Q(seq__isnull=True)),)


class Event(models.Model):
    """One row of the log (A1, A3). `facts` is JSON with a NUL byte where a text stands; `texts` holds these JSON texts
    joined by NUL bytes; splicing them gives the exact bytes that were sent. NULL texts were erased."""

    pk = models.CompositePrimaryKey("session_id", "seq")
    session = models.ForeignKey(Session, models.DO_NOTHING)
    seq = models.BigIntegerField()
    type = models.CharField(max_length=32)
    at = models.DateTimeField()
    loop = models.UUIDField(null=True)
    turn = models.UUIDField(null=True)
    step = models.IntegerField(null=True)
    actor = models.TextField()
    cause = models.TextField(null=True)
    facts = models.BinaryField()
    texts = models.BinaryField(null=True)
    facts_digest = models.BinaryField()
    texts_digest = models.BinaryField()
    link = models.BinaryField()
    erases = models.BigIntegerField(null=True)

    class Meta:
        db_table = "event"
        indexes = (models.Index(fields=["session", "turn", "seq"], name="event_turn"),)


class Command(models.Model):
    """The first receipt of a command id, kept 30 days (A4)."""

    pk = models.CompositePrimaryKey("principal", "id")
    principal = models.TextField()
    id = models.TextField()
    digest = models.BinaryField()
    receipt = models.JSONField()
    at = models.DateTimeField(db_default=Now(), db_index=True)

    class Meta:
        db_table = "command"


class Audit(models.Model):
    """An attempt that changed nothing (A9)."""

    id = models.BigAutoField(primary_key=True)
    session = models.UUIDField(null=True, db_index=True)
    at = models.DateTimeField(db_default=Now())
    actor = models.JSONField()
    attempt = models.CharField(max_length=40)
    outcome = models.CharField(max_length=40)
    data = models.JSONField()

    class Meta:
        db_table = "audit"


class Interruption(models.Model):
    """One `TurnInterrupted`, as the interruptions pages query it; a projection of the log."""

    id = models.UUIDField(primary_key=True, help_text="the turn's id")
    session = models.ForeignKey(Session, models.DO_NOTHING)
    loop = models.UUIDField()
    seq = models.BigIntegerField()
    turn_index = models.IntegerField()
    at = models.DateTimeField(db_index=True)
    request = models.UUIDField(null=True)
    actor = models.JSONField()
    cause = models.CharField(max_length=20)
    reason = models.TextField(null=True)
    phase = models.CharField(max_length=12)
    ended_by = models.CharField(max_length=12)
    acknowledged_ms = models.IntegerField(null=True)
    settled_ms = models.IntegerField()
    steps_kept = models.IntegerField()
    cut_off = models.IntegerField(help_text="characters")
    ended = models.IntegerField(help_text="processes")
    surviving = models.IntegerField(help_text="processes")
    unknown = models.BooleanField()
    kept = models.IntegerField(help_text="inputs")
    held = models.IntegerField(help_text="inputs")
    cancelled = models.IntegerField(help_text="inputs")

    class Meta:
        db_table = "interruption"


class Worker(models.Model):
    """A worker process and the lease it lives by (J2), on the database's clock."""

    id = models.UUIDField(primary_key=True)
    host = models.TextField()
    boot_id = models.TextField()
    pid = models.IntegerField()
    warden_pid = models.IntegerField()
    isolation = models.TextField(default="")
    draining = models.BooleanField(db_default=False, help_text="it takes no more turns and ends when it has none (J4)")
    beat_at = models.DateTimeField(db_default=Now())
    alive_until = models.DateTimeField()

    class Meta:
        db_table = "worker"


class RunningTurn(models.Model):
    """What a worker is doing this moment with a turn (A1): its phase, beside the log and outside the session's lock."""

    turn = models.UUIDField(primary_key=True)
    session = models.UUIDField(db_index=True)
    loop = models.UUIDField()
    worker = models.UUIDField(db_index=True)
    epoch = models.IntegerField()
    step = models.IntegerField(default=1)
    attempt = models.IntegerField(default=1)
    phase = models.CharField(max_length=12)
    since = models.DateTimeField(db_default=Now())
    call = models.TextField(default="")
    next_at = models.DateTimeField(null=True)
    depth = models.IntegerField(db_default=0, help_text="how many agents are above its own")

    class Meta:
        db_table = "running_turn"


class BackgroundProcess(models.Model):
    """What a settled call left running (E13): what its warden polls for a wish to end it; a projection of the log."""

    pk = models.CompositePrimaryKey("turn", "call")
    session = models.UUIDField(db_index=True)
    loop = models.UUIDField()
    turn = models.UUIDField()
    call = models.TextField()
    worker = models.UUIDField(db_index=True)
    started_at = models.DateTimeField()
    kill_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "background_process"


class Survivor(models.Model):
    """A settled call whose processes outlived their kill, until their end is told (E7); a projection of the log.

    The event `seq`, its settlement, names them; `turn` is the call's own.
    """

    pk = models.CompositePrimaryKey("turn", "call")
    session = models.UUIDField(db_index=True)
    loop = models.UUIDField()
    turn = models.UUIDField()
    call = models.TextField()
    worker = models.UUIDField(db_index=True)
    seq = models.BigIntegerField()

    class Meta:
        db_table = "survivor"


class TurnMark(models.Model):
    """A marked turn that has not ended: what wardens poll and the fence watches (E2, E9)."""

    turn = models.UUIDField(primary_key=True)
    session = models.UUIDField()
    worker = models.UUIDField(db_index=True)
    request = models.UUIDField()
    marked_at = models.DateTimeField(db_default=Now())
    acknowledged_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "turn_mark"


class WardenReport(models.Model):
    """What a warden killed on its own authority: the proof that nothing runs when its worker cannot settle (J6)."""

    id = models.BigAutoField(primary_key=True)
    worker = models.UUIDField(db_index=True)
    turn = models.UUIDField(null=True, db_index=True)
    call = models.TextField()
    epoch = models.IntegerField()
    processes = models.JSONField()
    output = models.TextField()
    reason = models.CharField(max_length=20)
    at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "warden_report"


class StreamText(models.Model):
    """The text a running step has streamed so far, for late joiners and for what a stop cut off (L2)."""

    pk = models.CompositePrimaryKey("turn", "step", "attempt", "kind", "call")
    session = models.UUIDField(db_index=True)
    loop = models.UUIDField()
    turn = models.UUIDField()
    step = models.IntegerField()
    attempt = models.IntegerField()
    kind = models.CharField(max_length=12)
    call = models.TextField(default="")
    text = models.TextField()
    saved_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "stream_text"


class PushSubscription(models.Model):
    """Where a device's notifications go (Web Push); gone with the device's sign-out."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    device = models.OneToOneField(Device, models.CASCADE, related_name="push")
    endpoint = models.TextField(unique=True)
    p256dh = models.TextField(help_text="the browser's public key")
    auth = models.TextField(help_text="the browser's shared secret")
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "push_subscription"


class PushSettings(models.Model):
    """What a person wants to be told on all their devices. No row: everything, at any hour."""

    person = models.OneToOneField(Person, models.CASCADE, primary_key=True, related_name="push_settings")
    unwanted = models.JSONField(default=list, help_text="kinds that are not told")
    quiet_from = models.TimeField(null=True)
    quiet_to = models.TimeField(null=True)
    zone = models.CharField(max_length=64, default="UTC", help_text="of the quiet hours")
    silent_min = models.IntegerField(db_default=10, default=10, help_text="minutes in which nothing happens")

    class Meta:
        db_table = "push_settings"


class PushChoice(models.Model):
    """What of one session a person is told: `all`, `asks` (approvals and failures) or `nothing`.

    No row: all of one's own sessions, nothing of others'.
    """

    pk = models.CompositePrimaryKey("person_id", "session_id")
    person = models.ForeignKey(Person, models.CASCADE)
    session = models.ForeignKey(Session, models.CASCADE)
    level = models.CharField(max_length=8)

    class Meta:
        db_table = "push_choice"


class PushOutbox(models.Model):
    """One piece of news for one subscription, written in the transaction of its event; `due_at` is NULL once done.

    The subscription may be gone by the time it is looked at. `about` tells news of one kind apart: a gate, a turn.
    """

    id = models.BigAutoField(primary_key=True)
    subscription = models.UUIDField()
    session = models.UUIDField()
    seq = models.BigIntegerField()
    kind = models.CharField(max_length=10)
    about = models.TextField()
    at = models.DateTimeField(db_default=Now())
    due_at = models.DateTimeField(null=True, db_default=Now())
    attempts = models.IntegerField(db_default=0)
    note = models.TextField(db_default="", help_text="what became of it")

    class Meta:
        db_table = "push_outbox"
        constraints = (
            models.UniqueConstraint(fields=["subscription", "session", "kind", "about"], name="push_outbox_once"),
        )
        indexes = (models.Index(fields=["due_at"], name="push_outbox_due", condition=models.Q(due_at__isnull=False)),)
