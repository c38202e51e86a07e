"""Files of messages: uploaded first, then named by an input or a steer."""

from typing import Final

from django.http import HttpRequest, HttpResponse, HttpResponseNotModified
from django.utils.http import content_disposition_header
from ninja import File, Router
from ninja.files import UploadedFile

from sessions_app import control
from sessions_app.api import replies
from sessions_app.api.answers import answer
from sessions_app.api.fields import Id
from sessions_app.api.problems import invalid
from sessions_app.api.reading import role_in
from sessions_app.api.signed_in import command_id, who
from sessions_app.engine.errors import Refused
from sessions_app.engine.files import IMAGES, check_file_size
from sessions_app.log import files

router = Router(tags=["files"])
_ALONE: Final = "default-src 'none'; sandbox; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"


@router.post("/sessions/{session}/files", response={201: replies.UploadedFile})
def upload(request: HttpRequest, session: Id, file: File[UploadedFile]) -> HttpResponse:
    """Upload one file (`multipart/form-data`, field `file`) for a message of this session.

    Its type is found in its bytes, whatever the caller says. A file that no message names is forgotten after a day.
    """
    if sum(len(each) for _, each in request.FILES.lists()) != 1:
        raise invalid("One file at a time, in the field `file`.", field="file")
    check_file_size(file.size or 0)  # before it is read
    kept = control.upload(who(request), session, command_id(request), name=file.name or "", content=file.read())
    return answer(kept, 201)


@router.get("/sessions/{session}/files/{file}", response={200: bytes})
def download(request: HttpRequest, session: Id, file: Id) -> HttpResponse:
    """The bytes of a file. Only images are shown in place; everything else, SVG and HTML too, is a download."""
    role_in(who(request), session)
    tag = f'"{file}"'  # its bytes never change; whether one may read it, and whether it is there, is asked each time
    if request.headers.get("If-None-Match") == tag and files.kept(session, [file]):
        return HttpResponseNotModified()
    found = files.content(session, file)
    if found is None:
        raise Refused("file_not_found", "There is no such file, or it was erased.", file=file)
    name, type_, content = found
    shown = type_ in IMAGES
    response = HttpResponse(content, content_type=type_ if shown else "application/octet-stream")
    response["Content-Disposition"] = content_disposition_header(not shown, name) or "attachment"
    response["Content-Security-Policy"] = _ALONE
    response["X-Content-Type-Options"] = "nosniff"
    response["Cross-Origin-Resource-Policy"] = "same-origin"
    response["Cache-Control"], response["ETag"] = "private, no-cache", tag
    return response
