// Triages a ticket and, in the same transaction, enqueues the message that says so.
//
//     node desk_sqlite.mjs app.db 41 ada
//
// Both are committed or neither. Node has SQLite built in from version 22.5 on; with an
// older one the sqlite3 command does the same.

import { execFileSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';

const [path, ticket, staff] = process.argv.slice(2);
const message = randomUUID(); // chosen here, so that the call could be repeated
const payload = JSON.stringify({ ticket: Number(ticket), event: 'ticket.triaged', by: staff });

const steps = [
  [`UPDATE ticket SET status = 'triaged' WHERE id = ?`, Number(ticket)],
  [`INSERT INTO consign_enqueue_message (contract, channel, id, recipient, payload) VALUES (1, 'crm', ?, 'desk', ?)`, message, payload],
  [`INSERT INTO assignment (ticket, staff) VALUES (?, ?)`, Number(ticket), staff],
];

function byModule({ DatabaseSync }) {
  const db = new DatabaseSync(path);
  db.exec('PRAGMA busy_timeout = 5000; PRAGMA synchronous = FULL; BEGIN IMMEDIATE');
  try {
    for (const [sql, ...values] of steps) db.prepare(sql).run(...values);
    db.exec('COMMIT');
  } catch (err) {
    db.exec('ROLLBACK');
    throw err;
  } finally {
    db.close();
  }
}

function byCommand() {
  const literal = (v) => (typeof v === 'number' ? String(v) : `'${v.replaceAll("'", "''")}'`);
  const script = steps.map(([sql, ...values]) => sql.replace(/\?/g, () => literal(values.shift())));
  // -bail: the command ends with the first error, and the transaction with it.
  execFileSync('sqlite3', ['-bail', path], {
    input: ['.timeout 5000', 'PRAGMA synchronous = FULL;', 'BEGIN IMMEDIATE;', ...script.map((s) => s + ';'), 'COMMIT;', ''].join('\n'),
  });
}

const builtIn = await import('node:sqlite').catch(() => null);
if (builtIn) byModule(builtIn);
else byCommand();
console.log(message);
