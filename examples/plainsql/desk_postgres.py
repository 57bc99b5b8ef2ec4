"""Triages a ticket and, in the same transaction, enqueues the message that says so.

    python3 desk_postgres.py "$DATABASE_URL" 41 ada

Both are committed or neither. It runs psql, which every PostgreSQL brings along; with a
driver the statements are the same.
"""

import json
import subprocess
import sys
import uuid

TRIAGE = """
BEGIN;
UPDATE ticket SET status = 'triaged' WHERE id = :ticket;
SELECT consign.enqueue_message(1, channel => 'crm', id => :'message', recipient => 'desk', payload => :'payload');
INSERT INTO assignment (ticket, staff) VALUES (:ticket, :'staff');
COMMIT;
SELECT FROM consign.wake();
"""


def triage(url: str, ticket: int, staff: str) -> str:
    values = {
        "ON_ERROR_STOP": 1,  # the connection ends with the first error, and the transaction with it
        "ticket": ticket,
        "staff": staff,
        "message": uuid.uuid4(),  # chosen here, so that the call could be repeated
        "payload": json.dumps({"ticket": ticket, "event": "ticket.triaged", "by": staff}),
    }
    command = ["psql", "-X", "-q", "-t", "-A", "-d", url]
    for name, value in values.items():
        command += ["-v", f"{name}={value}"]
    return subprocess.run(command, input=TRIAGE, check=True, text=True, stdout=subprocess.PIPE).stdout.strip()


if __name__ == "__main__":
    url, ticket, staff = sys.argv[1:]
    print(triage(url, int(ticket), staff))
