"""Django's admin: accounts are managed here, everything of a session is only looked at. It opens for administrators
at a signed-in browser (see `PeopleMiddleware`); what they do here to accounts stands in its own history."""

from typing import TYPE_CHECKING, Any, Final

from django import forms
from django.contrib import admin
from django.contrib.auth.models import Group
from django.db.models import Model, Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from sessions_app.engine.errors import Refused
from sessions_app.models import Audit, Device, Event, Interruption, Member, Person, Session, Token
from sessions_app.people import accounts, devices, tokens

if TYPE_CHECKING:
    Admin = admin.ModelAdmin[Any]
    PersonFormBase = forms.ModelForm[Person]
else:  # generic for type checkers only
    Admin, PersonFormBase = admin.ModelAdmin, forms.ModelForm

EVENTS_SHOWN: Final = 200


class LookOnly(Admin):
    """Nothing here is added, changed or deleted."""

    def has_add_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False


class PersonForm(PersonFormBase):
    """An account without what Django keeps beside a password."""

    class Meta:
        model = Person
        fields = ("username", "is_active", "is_superuser")
        labels = {"username": "Name", "is_active": "May sign in", "is_superuser": "Administrator"}  # noqa: RUF012
        help_texts = {  # noqa: RUF012  (Django's way to write a form)
            "username": f"{accounts.NAME_RULE}.",
            "is_active": "Without it the person is signed out everywhere at once, and their tokens are dead.",
            "is_superuser": "May read, stop, close and erase in every session, and open these pages.",
        }

    def clean_username(self) -> str:
        try:
            return accounts.fit_name(self.cleaned_data["username"], but=self.instance)
        except Refused as refused:
            raise forms.ValidationError(refused.detail) from refused


@admin.register(Person)
class PersonAdmin(Admin):
    """Accounts are suspended, never deleted: the log names them."""

    form = PersonForm
    list_display = ("username", "is_active", "is_superuser", "last_login")
    list_filter = ("is_active", "is_superuser")
    search_fields = ("username",)

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def save_model(self, request: HttpRequest, obj: Person, form: object, change: bool) -> None:
        if not change:
            obj.set_unusable_password()
        obj.is_staff = obj.is_superuser  # what Django's admin asks for
        super().save_model(request, obj, form, change)
        if not obj.is_active:
            devices.sign_out_everywhere(obj.pk)


@admin.register(Device)
class DeviceAdmin(LookOnly):
    list_display = ("person", "name", "kind", "created_at", "last_used_at")
    list_filter = ("kind",)
    search_fields = ("person__username",)
    fields = ("person", "name", "kind", "created_at", "last_used_at")  # the session key would be as good as the cookie
    actions = ("sign_out",)

    @admin.action(description="Sign the selected devices out")
    def sign_out(self, request: HttpRequest, chosen: QuerySet[Device]) -> None:
        self.message_user(request, f"Signed out: {devices.sign_out(chosen)}.")


@admin.register(Token)
class TokenAdmin(LookOnly):
    list_display = ("person", "name", "agent", "created_at", "last_used_at", "revoked_at")
    list_filter = ("agent",)
    search_fields = ("person__username", "name")
    fields = ("person", "name", "agent", "created_at", "last_used_at", "revoked_at")
    actions = ("revoke",)

    @admin.action(description="Revoke the selected tokens")
    def revoke(self, request: HttpRequest, chosen: QuerySet[Token]) -> None:
        self.message_user(request, f"Revoked: {tokens.revoke(chosen)}.")


@admin.register(Session)
class SessionAdmin(LookOnly):
    list_display = ("title", "created_by", "word", "head", "active_at")
    list_filter = ("word",)
    search_fields = ("=id", "title")
    fields = (
        *("id", "title", "created_by", "created_at", "members", "events", "model", "workspace", "settings"),
        *("word", "word_since", "active_at", "head", "fold", "runnable", "state"),
    )
    readonly_fields = ("members", "events")

    @admin.display(description="Members")
    def members(self, session: Session) -> SafeString:
        rows = Member.objects.filter(session=session).select_related("person")
        return format_html_join(", ", "{} ({})", ((row.person.username, row.role) for row in rows))

    @admin.display(description="Events")
    def events(self, session: Session) -> SafeString:
        return format_html('<a href="{}">the log</a>', reverse("admin:session_events", args=[session.pk]))

    def get_urls(self) -> list[URLPattern]:
        page = self.admin_site.admin_view(self.events_page)
        return [path("<uuid:session>/events/", page, name="session_events"), *super().get_urls()]

    def events_page(self, request: HttpRequest, session: Any) -> HttpResponse:
        """The log, newest first, without its texts: Django's admin cannot hold a model with a key of two columns."""
        row = get_object_or_404(Session, pk=session)
        before = request.GET.get("before", "")
        older = Q(seq__lt=int(before)) if before.isdecimal() and len(before) < 19 else Q()
        found = Event.objects.filter(older, session=row).annotate(erased=Q(texts__isnull=True)).order_by("-seq")
        items = [
            {**item, "facts": bytes(item["facts"]).replace(b"\0", b"(text)").decode()}
            for item in found.values("seq", "type", "at", "actor", "facts", "erased")[:EVENTS_SHOWN]
        ]
        following = items[-1]["seq"] if len(items) == EVENTS_SHOWN else None
        context = {**self.admin_site.each_context(request), "session": row, "items": items, "next": following}
        return render(request, "people/admin_events.html", {**context, "title": row.title, "opts": self.opts})


@admin.register(Interruption)
class InterruptionAdmin(LookOnly):
    list_display = ("at", "session", "turn_index", "cause", "phase", "ended_by", "settled_ms")
    list_filter = ("cause", "phase", "ended_by")
    date_hierarchy = "at"


@admin.register(Audit)
class AuditAdmin(LookOnly):
    list_display = ("at", "attempt", "outcome", "actor", "session")
    list_filter = ("attempt", "outcome")
    date_hierarchy = "at"


admin.site.unregister(Group)  # there are none: what somebody may do is their role in a session
admin.site.site_header = admin.site.site_title = "steerweb"
admin.site.index_title = "Accounts and records"
