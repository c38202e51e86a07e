"""Who am I, and which models this server has a key for."""

import os

from django.http import HttpRequest, HttpResponse
from ninja import Router

from sessions_app.api import replies
from sessions_app.api.answers import answer
from sessions_app.api.signed_in import who
from sessions_app.engine.model_names import provider_choices

router = Router(tags=["me"])


@router.get("/me", response={200: replies.Me})
def me(request: HttpRequest) -> HttpResponse:
    """The caller, and the providers of models with whether this process has their key (never the key)."""
    principal = who(request)
    providers = [
        {
            "name": choice.provider.name,
            "title": choice.provider.title,
            "example": choice.provider.example,
            "ready": choice.present,
        }
        for choice in provider_choices(os.environ)
    ]
    return answer({
        **principal.actor.json(),
        "person": principal.person,
        "is_admin": principal.is_admin,
        "providers": providers,
    })  # fmt: skip
