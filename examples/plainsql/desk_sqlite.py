"""Triages a ticket and, in the same transaction, enqueues the message that says so.

    python3 desk_sqlite.py app.db 41 ada

Both are committed or neither. Python's own sqlite3 module is all that is needed.
"""

import json
import sqlite3
import sys
import uuid


def triage(db: sqlite3.Connection, ticket: int, staff: str) -> str:
    message = str(uuid.uuid4())  # chosen here, so that the call could be repeated
    with db:  # commits at the end, rolls back on any exception
        db.execute("BEGIN IMMEDIATE")
        db.execute("UPDATE ticket SET status = 'triaged' WHERE id = ?", (ticket,))
        db.execute(
            "INSERT INTO consign_enqueue_message (contract, channel, id, recipient, payload) VALUES (1, ?, ?, ?, ?)",
            ("crm", message, "desk", json.dumps({"ticket": ticket, "event": "ticket.triaged", "by": staff})),
        )
        db.execute("INSERT INTO assignment (ticket, staff) VALUES (?, ?)", (ticket, staff))
    return message


if __name__ == "__main__":
    path, ticket, staff = sys.argv[1:]
    # isolation_level None: this program begins its transactions itself.
    db = sqlite3.connect(path, timeout=5, isolation_level=None)
    db.execute("PRAGMA synchronous = FULL")
    print(triage(db, int(ticket), staff))
    db.close()
