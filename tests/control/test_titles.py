"""A session that nobody named is named by its first message."""

import pytest

from sessions_app import control
from sessions_app.ids import new_id
from sessions_app.log import listing, read
from tests.support.world import person

pytestmark = pytest.mark.usefixtures("database")


@pytest.mark.rule("D7")
def test_the_first_message_makes_the_title_and_neither_later_ones_nor_steers_change_it() -> None:
    ana = person("ana")
    session = control.create_session(ana, new_id(), model="demo:")["id"]
    control.steer(ana, session, new_id(), text="a steer is not the start of anything")
    first = "Move the billing tables to the new schema, then run the whole suite of tests and tell me\nand more"
    control.submit(ana, session, new_id(), text=first)
    control.submit(ana, session, new_id(), text="another")
    view = listing.session_view(ana, session)
    assert view["title"] == "Move the billing tables to the new schema, then run the whole suite …"
    changes = [event for event in read.engine_events(session) if event.type == "SessionChanged"]
    assert len(changes) == 1


def test_a_chosen_title_stays() -> None:
    ana = person("ana")
    session = control.create_session(ana, new_id(), model="demo:", title="Chosen")["id"]
    control.submit(ana, session, new_id(), text="hello")
    assert listing.session_view(ana, session)["title"] == "Chosen"
