"""As whom the agent's commands run, said where people start and watch them."""

import os
import pwd


def isolation_text() -> str:
    """One sentence about the user and one about what keeps commands apart from the machine: nothing yet.

    Under `steerweb up` the worker runs on this machine as this user; several machines are a later milestone.
    """
    uid = os.geteuid()
    try:
        name = pwd.getpwuid(uid).pw_name
    except KeyError:
        name = str(uid)
    return (
        f"Commands run as the user “{name}” of the machine steerweb runs on. They are not isolated yet: "
        "they can read and change whatever this user can."
    )
