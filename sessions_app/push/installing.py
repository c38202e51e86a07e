"""What makes the site an app on a phone: the manifest, the service worker, and the page for when nothing is stored."""

import hashlib
from functools import lru_cache
from http import HTTPStatus
from pathlib import Path
from typing import Final

import orjson
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.templatetags.static import static
from django.views.decorators.http import require_safe

_STORED: Final = (".js", ".mjs", ".css", ".svg", ".png")
_SCRIPT: Final = "js/service_worker.js"

MANIFEST: Final = {
    "id": "/",
    "name": "steerweb",
    "short_name": "steerweb",
    "description": "Watch, steer and stop agent sessions.",
    "start_url": "/",
    "scope": "/",
    "display": "standalone",
    "background_color": "#14181e",
    "theme_color": "#14181e",
    "categories": ["developer", "productivity"],
}
_ICONS: Final = (
    ("icon-192.png", "192x192", "image/png", "any"),
    ("icon-512.png", "512x512", "image/png", "any"),
    ("maskable-512.png", "512x512", "image/png", "maskable"),
    ("steerweb.svg", "any", "image/svg+xml", "any"),
)
_SHORTCUTS: Final = (
    ("Waiting for approval", "/?state=approval"),
    ("Running", "/?state=running"),
    ("Interruptions", "/interruptions"),
)


@require_safe
def manifest(request: HttpRequest) -> HttpResponse:
    """The web app manifest; browsers fetch it without cookies."""
    icons = [
        {"src": static(f"icons/{name}"), "sizes": sizes, "type": type_, "purpose": purpose}
        for name, sizes, type_, purpose in _ICONS
    ]
    shortcuts = [{"name": name, "url": url, "icons": icons[:1]} for name, url in _SHORTCUTS]
    body = orjson.dumps({**MANIFEST, "icons": icons, "shortcuts": shortcuts})
    return HttpResponse(body, content_type="application/manifest+json", headers={"Cache-Control": "no-cache"})


@require_safe
def service_worker(request: HttpRequest) -> HttpResponse:
    """The service worker with its version: another one whenever a static file, or this page, is another."""
    folder = Path(settings.STATICFILES_DIRS[0])
    found = sorted(path for path in folder.rglob("*") if path.suffix in _STORED)
    stats = tuple((str(path), path.stat().st_mtime_ns, path.stat().st_size) for path in found)
    files = [static(str(path.relative_to(folder))) for path in found if str(path.relative_to(folder)) != _SCRIPT]
    build = {"version": _version(stats), "files": [*files, "/offline"]}
    script = b"self.BUILD = " + orjson.dumps(build) + b";\n" + (folder / _SCRIPT).read_bytes()
    headers = {"Cache-Control": "no-cache", "Service-Worker-Allowed": "/"}
    return HttpResponse(script, content_type="text/javascript; charset=utf-8", headers=headers)


@lru_cache(maxsize=2)
def _version(stats: tuple[tuple[str, int, int], ...]) -> str:
    digest = hashlib.sha256()
    for path, _, _ in stats:
        content = Path(path).read_bytes()
        digest.update(f"{Path(path).name} {len(content)} ".encode() + content)
    return digest.hexdigest()[:16]


@require_safe
def offline(request: HttpRequest) -> HttpResponse:
    """The page for an address of which this device has nothing stored, while it has no connection."""
    return render(request, "offline.html", status=HTTPStatus.OK)
