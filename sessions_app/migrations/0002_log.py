"""The database's own share of the rules: the log is append-only (A3), and so is the audit (A9)."""

from django.db import migrations

GUARD = """
CREATE FUNCTION event_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    -- The one change there is: forgetting the texts of an event, after a ContentErased event names it (A3).
    IF TG_OP = 'UPDATE' AND OLD.texts IS NOT NULL AND NEW.texts IS NULL
       AND (to_jsonb(NEW) - 'texts') = (to_jsonb(OLD) - 'texts')
       AND EXISTS (SELECT 1 FROM event e WHERE e.session_id = OLD.session_id AND e.erases = OLD.seq) THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'the log is append-only: % on % refused', TG_OP, TG_TABLE_NAME USING ERRCODE = 'integrity_constraint_violation';
END $$;
CREATE TRIGGER event_guard_row BEFORE UPDATE OR DELETE ON event FOR EACH ROW EXECUTE FUNCTION event_guard();
CREATE TRIGGER event_guard_truncate BEFORE TRUNCATE ON event FOR EACH STATEMENT EXECUTE FUNCTION event_guard();

CREATE FUNCTION audit_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the audit is append-only: % refused', TG_OP USING ERRCODE = 'integrity_constraint_violation';
END $$;
CREATE TRIGGER audit_guard_row BEFORE UPDATE OR DELETE ON audit FOR EACH ROW EXECUTE FUNCTION audit_guard();
CREATE TRIGGER audit_guard_truncate BEFORE TRUNCATE ON audit FOR EACH STATEMENT EXECUTE FUNCTION audit_guard();

ALTER TABLE event ADD CONSTRAINT event_seq_positive CHECK (seq > 0);
ALTER TABLE member ADD CONSTRAINT member_role CHECK (role IN ('owner', 'operator', 'observer'));
"""

UNGUARD = """
DROP TRIGGER event_guard_row ON event; DROP TRIGGER event_guard_truncate ON event; DROP FUNCTION event_guard();
DROP TRIGGER audit_guard_row ON audit; DROP TRIGGER audit_guard_truncate ON audit; DROP FUNCTION audit_guard();
ALTER TABLE event DROP CONSTRAINT event_seq_positive; ALTER TABLE member DROP CONSTRAINT member_role;
"""


class Migration(migrations.Migration):
    dependencies = [("sessions_app", "0001_initial")]
    operations = [migrations.RunSQL(GUARD, UNGUARD)]
