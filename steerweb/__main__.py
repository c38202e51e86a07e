"""`steerweb` on a command line: `python -m steerweb COMMAND`, or the console script."""

import os
import sys


def _own_commands() -> dict[str, str]:
    """Every command of ours with its one line of help, in the order they are shown."""
    from django.core.management import get_commands, load_command_class

    names = sorted(name for name, app in get_commands().items() if app == "sessions_app")
    return {name: load_command_class("sessions_app", name).help for name in names}


def _overview(commands: dict[str, str]) -> str:
    width = max((len(name) for name in commands), default=0)
    lines = [f"  {name:<{width}}  {text}" for name, text in commands.items()]
    return "\n".join(["usage: steerweb COMMAND ...", "", *lines, "", "`steerweb COMMAND --help` says more."])


def main() -> None:
    """Run one command; `warden` and `up` start without Django, everything else is a management command."""
    name = sys.argv[1] if len(sys.argv) > 1 else "help"
    if name == "warden":
        from sessions_app.worker.warden.process import main as warden

        warden()
        return
    if name == "up":
        from steerweb.up.run import main as up

        up(sys.argv[2:])
    if name == "--version":
        from importlib.metadata import version

        print(f"steerweb {version('steerweb')}")
        return
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "steerweb.settings")
    import django
    from django.core.management import execute_from_command_line, get_commands

    django.setup()  # get_commands remembers what it finds, and finds only Django's own before this
    if name in ("help", "--help", "-h") and len(sys.argv) <= 2:
        print(_overview(_own_commands()))
    elif name != "help" and name not in get_commands():
        sys.stderr.write(f"steerweb: there is no command {name!r}.\n\n{_overview(_own_commands())}\n")
        raise SystemExit(2)
    else:
        execute_from_command_line(["steerweb", *sys.argv[1:]])


if __name__ == "__main__":
    main()
