// Triages a ticket and, in the same transaction, enqueues the message that says so.
//
//     node desk_postgres.mjs "$DATABASE_URL" 41 ada
//
// Both are committed or neither. It runs psql, which every PostgreSQL brings along; with
// a driver the statements are the same.

import { execFileSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';

const [url, ticket, staff] = process.argv.slice(2);

const triage = `
BEGIN;
UPDATE ticket SET status = 'triaged' WHERE id = :ticket;
SELECT consign.enqueue_message(1, channel => 'crm', id => :'message', recipient => 'desk', payload => :'payload');
INSERT INTO assignment (ticket, staff) VALUES (:ticket, :'staff');
COMMIT;
SELECT FROM consign.wake();
`;

const values = {
  ON_ERROR_STOP: 1, // the connection ends with the first error, and the transaction with it
  ticket: Number(ticket),
  staff,
  message: randomUUID(), // chosen here, so that the call could be repeated
  payload: JSON.stringify({ ticket: Number(ticket), event: 'ticket.triaged', by: staff }),
};
const variables = Object.entries(values).flatMap(([name, value]) => ['-v', `${name}=${value}`]);
const printed = execFileSync('psql', ['-X', '-q', '-t', '-A', '-d', url, ...variables], { input: triage, encoding: 'utf8' });
console.log(printed.trim());
