"""The last step before a child's program: become who it runs as, then die with the parent.

Run as a script (`python -I -S child.py IDENTITY SIGNAL PARENT PROGRAM ARGS...`), never imported: it imports nothing of
ours, so it starts in some 15 ms, and unlike a `preexec_fn` it is safe beside threads.

- IDENTITY `self` changes nothing. `namespace` enters a user namespace in which uid 1 is the caller's own uid: a server
  that refuses to run as root runs, without a new user and with unchanged files. `nobody` drops to that user.
- SIGNAL is sent to the program when the parent's starting thread ends, however it ends (PR_SET_PDEATHSIG; it has to
  come after the change of identity, which clears it). PARENT is checked afterwards, as the parent may be gone already.
"""

import ctypes
import os
import pwd
import signal
import sys

PR_SET_PDEATHSIG = 1
CLONE_NEWUSER = 0x10000000
LOST = 70  # exit status: the parent was gone before the program started


def _call(name: str, *arguments: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, name)(*(ctypes.c_ulong(argument) for argument in arguments)) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{name}: {os.strerror(code)}")


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:  # noqa: PTH123  (pathlib would double this script's start)
        file.write(text)


def enter_namespace() -> None:
    """Become uid and gid 1 of a new user namespace, mapped to the caller's own."""
    uid, gid = os.geteuid(), os.getegid()
    _call("unshare", CLONE_NEWUSER)
    _write("/proc/self/setgroups", "deny")
    _write("/proc/self/uid_map", f"1 {uid} 1")
    _write("/proc/self/gid_map", f"1 {gid} 1")


def become_nobody() -> None:
    """Drop root for good."""
    entry = pwd.getpwnam("nobody")
    os.setgroups([])
    os.setresgid(entry.pw_gid, entry.pw_gid, entry.pw_gid)
    os.setresuid(entry.pw_uid, entry.pw_uid, entry.pw_uid)


def run(program: list[str]) -> None:
    """Replace this process. Not by `os.execvp`, which imports a module that the new identity may not reach."""
    folders = [""] if "/" in program[0] else os.environ.get("PATH", os.defpath).split(":")
    for folder in folders:
        try:
            os.execv(f"{folder}/{program[0]}" if folder else program[0], program)
        except (FileNotFoundError, NotADirectoryError, PermissionError) as problem:
            last = problem
    raise last


def main() -> None:
    """Do the steps and replace this process by the program."""
    identity, death_signal, parent = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    program = sys.argv[4:]
    # A supervisor may hold signals back while it starts children; they do not inherit that.
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    if identity == "namespace":
        enter_namespace()
    elif identity == "nobody":
        become_nobody()
    if death_signal:
        _call("prctl", PR_SET_PDEATHSIG, death_signal, 0, 0, 0)
        if os.getppid() != parent:
            raise SystemExit(LOST)
    run(program)


if __name__ == "__main__":
    main()
