"""The addresses of the pages."""

from django.urls import path

from sessions_app import views
from sessions_app.history import views as history

urlpatterns = [
    path("", views.sessions, name="sessions"),
    path("parts", views.parts, name="parts"),
    path("stop-all", views.stop_all, name="stop-all"),
    path("s/<uuid:session>", views.session, name="session"),
    path("s/<uuid:session>/stop", views.stop, name="stop"),
    path("s/<uuid:session>/gates/<uuid:gate>", views.answer, name="answer"),
    path("s/<uuid:session>/interruptions", history.session_interruptions, name="session-interruptions"),
    path("interruptions", history.interruptions, name="interruptions"),
    path("interruptions/<uuid:interruption>", history.interruption, name="interruption"),
]
