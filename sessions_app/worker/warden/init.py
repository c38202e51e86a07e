"""The first process of a call: starts the command, reaps whatever that leaves behind, and says how the command ended.

Run as a script by an isolated interpreter: `init.py STATUS_FD OUTPUT_FD WARDEN_PID COMMAND...`. In a PID namespace of
its own it is process 1; elsewhere it is the child-subreaper that keeps orphans below itself. On STATUS_FD it writes one
line when the command runs (`S`) or cannot (`F errno`), and one when it has ended (`E code signal monotonic_ns`, -1 for
neither); OUTPUT_FD becomes the command's standard output and error. It ends when no child is left. WARDEN_PID is 0 in a
namespace (the kernel ends that with the warden); elsewhere SIGTERM tells of the warden's death, and everything below is
killed from here.
"""

import os
import signal
import sys
import time
from types import FrameType


def _start(command: list[str], status: int, output: int) -> int:
    """Start the command in a session of its own; its pid, or 0 after reporting why it cannot run."""
    seen, failed = os.pipe()  # closed by a successful exec
    pid = os.fork()
    if pid == 0:
        try:
            os.setsid()
            os.dup2(output, 1)
            os.dup2(output, 2)
            # Python ignores these two, and an ignored signal stays ignored across exec.
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)
            signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
            os.execvp(command[0], command)
        except OSError as error:
            os.write(failed, str(error.errno).encode())
        finally:
            os._exit(127)
    os.close(failed)
    os.close(output)
    problem = os.read(seen, 16)
    os.close(seen)
    if problem:
        os.write(status, b"F " + problem + b"\n")
        return 0
    os.write(status, b"S\n")
    return pid


def _reap(main: int, status: int) -> None:
    """Wait for children until none is left; tell of the command's end the moment it is seen."""
    while True:
        try:
            pid, result = os.waitpid(-1, 0)
        except ChildProcessError:
            return
        if pid == main:
            code = os.WEXITSTATUS(result) if os.WIFEXITED(result) else -1
            killed = os.WTERMSIG(result) if os.WIFSIGNALED(result) else -1
            os.write(status, f"E {code} {killed} {time.monotonic_ns()}\n".encode())


def _end_everything() -> None:
    """The warden is dead and no namespace does this for us: kill what is below until no child is left."""
    sys.path.insert(0, __file__.rsplit("/", 4)[0])
    from sessions_app.worker.warden import procfs

    hurry_until = time.monotonic() + 5
    while True:
        procfs.kill_below(os.getpid(), 0.05)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            os._exit(1)
        if time.monotonic() > hurry_until:
            time.sleep(0.5)


def main() -> None:
    """Run one call's command to the end of its whole tree."""
    status, output, warden = (int(each) for each in sys.argv[1:4])
    os.set_inheritable(status, False)
    os.set_inheritable(output, False)
    os.environ.pop("STEERWEB_INIT", None)

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        if warden and os.getppid() != warden:
            _end_everything()

    # Handlers, not SIG_IGN: the command must start with the defaults.
    for each in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(each, on_signal)
    if warden and os.getppid() != warden:
        return
    pid = _start(sys.argv[4:], status, output)
    if pid:
        _reap(pid, status)
    os._exit(0)  # the interpreter's own way out takes longer than the kill, and a call's end waits for it


if __name__ == "__main__":
    main()
