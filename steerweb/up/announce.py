"""What `up` prints."""

import sys
from dataclasses import dataclass
from pathlib import Path

from steerweb import runtime

LINK_HOURS = 1


@dataclass(frozen=True, slots=True)
class SignIn:
    """A one-time link and whose it is."""

    person: str
    path: str


def say(text: str = "") -> None:
    """One line on standard output, at once."""
    print(text, flush=True)


def show_ready(
    url: str, local_url: str, data: Path, sign_in: SignIn | None, *, for_phone: bool, seconds: float
) -> None:
    """The address, the sign-in link and, for eyes or a phone, its QR code; commands as they work for this `data`."""
    say(f"Ready after {seconds:.1f} s.")
    say()
    say(f"  Address   {url}/")
    if local_url != url:
        say(f"  Here      {local_url}/")
    if sign_in is None:
        say("  Nobody can sign in: every account is suspended. A new one:")
        say(f"            {runtime.shown('user create NAME --admin', data)}")
    else:
        _show_link(url + sign_in.path, sign_in.person, data, qr=for_phone or sys.stdout.isatty())
    if not for_phone:
        say("  From a phone: start it with --lan (same network) or --url ADDRESS (proxy or tunnel).")
    say("  Ctrl-C stops everything. Turns go on with the next start, except where a command still runs after")
    say(f"            {runtime.grace_s():g} s: it is ended and its turn interrupted. To wait for it, first:")
    say(f"            {runtime.shown('drain', data)}")


def _show_link(link: str, person: str, data: Path, *, qr: bool) -> None:
    say(f"  Sign in   {link}")
    say(f"            as {person}; it works once, within the hour. Another one:")
    say(f"            {runtime.shown(f'signin {person}', data)}")
    say()
    if qr:
        import segno  # only for eyes and phones: it would slow every start

        segno.make(link, micro=False).terminal(sys.stdout, compact=True, border=2)
        sys.stdout.flush()
