"""The addresses of the REST API and of the health pages."""

from django.http import Http404, HttpRequest, HttpResponse
from django.urls import include, path, re_path
from django.views.decorators.csrf import csrf_exempt

from sessions_app.api.app import guarded_patterns
from sessions_app.api.health import live, ready
from sessions_app.api.problems import answer_exception
from sessions_app.api.signed_in import require_signed_in


@csrf_exempt
def unknown(request: HttpRequest) -> HttpResponse:
    """No such address: said only to those who are signed in, and as JSON."""
    try:
        require_signed_in(request)
        raise Http404
    except Exception as exc:  # noqa: BLE001  (whatever it is, the answer is JSON)
        return answer_exception(request, exc)


urlpatterns = [
    path("health/live", live),
    path("health/ready", ready),
    path("api/v1/", include((guarded_patterns(), "ninja"), namespace="api-v1")),
    re_path(r"^api/", unknown),
]
