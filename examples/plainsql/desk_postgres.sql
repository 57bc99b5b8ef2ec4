-- Triages a ticket and, in the same transaction, enqueues the message that says so.
--
--     psql -X -q -t -A -v ticket=41 -v staff=ada -f desk_postgres.sql "$DATABASE_URL"
--
-- Both are committed or neither.
\set ON_ERROR_STOP on
BEGIN;
UPDATE ticket SET status = 'triaged' WHERE id = :ticket;
SELECT consign.enqueue_message(1,
    channel => 'crm',
    recipient => 'desk',
    payload => json_build_object('ticket', :ticket, 'event', 'ticket.triaged', 'by', :'staff'));
INSERT INTO assignment (ticket, staff) VALUES (:ticket, :'staff');
COMMIT;
-- Optional, and only after the commit: programs that deliver look at once.
SELECT FROM consign.wake();
