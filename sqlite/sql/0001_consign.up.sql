-- Consign schema 1. Programs from schema 1 on work with it.
-- oldest: 1
--
-- {s} and {i} are the prefix of every name. Tables, columns, indexes and
-- constraints are those of the PostgreSQL schema, but for the types: a UUID, a
-- digest or an owner is a BLOB, a truth value 0 or 1, and a time a whole number of
-- microseconds since 1970 in UTC. Enumerations are stored as the numbers of
-- package lifecycle; view {s}delivery_words spells everything out for people.
--
-- A CHECK is run for every row written, so it is written for speed: a list of more
-- than two values after IN builds a table each time, and takes long to prepare.

-- What to deliver, to whom, on whose behalf. Written once, never updated: the
-- trigger below holds that. Deleted only by retention and erasure.
CREATE TABLE {s}intent (
    ref              BLOB NOT NULL PRIMARY KEY,
    created_at       INTEGER NOT NULL,
    delivery_key     BLOB,                           -- what a redelivery repeats; null: the key is the ref
    run_id           BLOB,
    predecessor      BLOB,
    profile          INTEGER NOT NULL,               -- 1 work, 2 message
    link             INTEGER NOT NULL DEFAULT 0,     -- 0 first, 1 redelivery, 2 reissue
    task_index       INTEGER NOT NULL DEFAULT 0,
    kind             TEXT NOT NULL,                  -- kind of work, or channel
    payload_digest   BLOB NOT NULL,
    payload          TEXT NOT NULL,                  -- canonical JSON, RFC 8785
    version          TEXT,
    fingerprint      BLOB,
    work_key         TEXT,
    operation        TEXT,
    actor            TEXT,
    tenant           TEXT,
    security_version TEXT,
    target           TEXT,
    target_version   TEXT,
    address          TEXT,
    task             TEXT,
    subject          TEXT,
    trace            TEXT,
    CONSTRAINT intent_shape CHECK (
        length(ref) = 16 AND ifnull(length(delivery_key), 16) = 16
        AND length(CAST(kind AS BLOB)) BETWEEN 1 AND 128
        AND length(payload_digest) = 32
        AND link BETWEEN 0 AND 2
        AND (link = 0) = (predecessor IS NULL)
        AND (link = 1) = (delivery_key IS NOT NULL)
        -- PostgreSQL's texts hold no NUL either; here the store joins texts by it
        AND instr(payload || ifnull(task, '') || ifnull(subject, '') || ifnull(trace, ''), char(0)) = 0
        AND CASE profile
            WHEN 1 THEN length(CAST(payload AS BLOB)) <= 4096
                AND version IS NOT NULL AND fingerprint IS NOT NULL AND length(fingerprint) = 32
                AND run_id IS NOT NULL AND length(run_id) = 16
                AND work_key IS NOT NULL AND length(CAST(work_key AS BLOB)) BETWEEN 1 AND 128
                AND operation IS NOT NULL AND actor IS NOT NULL AND tenant IS NOT NULL
                AND security_version IS NOT NULL AND target IS NOT NULL AND target_version IS NOT NULL
                AND address IS NULL AND task IS NULL
                AND instr(kind || version || work_key || operation || actor || tenant || security_version || target
                    || target_version, char(0)) = 0
            WHEN 2 THEN address IS NOT NULL
                AND version IS NULL AND fingerprint IS NULL AND run_id IS NULL AND work_key IS NULL
                AND operation IS NULL AND actor IS NULL AND tenant IS NULL
                AND security_version IS NULL AND target IS NULL AND target_version IS NULL
                AND instr(kind || address, char(0)) = 0
            ELSE 0
            END
    )
) STRICT;

-- A work key is unique within its run, and no index is needed for that: the ref of
-- work is made from its run and its key, so a second one would have the same ref.
-- An intent has at most one successor.
CREATE UNIQUE INDEX {i}intent_predecessor ON {s}intent (predecessor) WHERE predecessor IS NOT NULL;
-- What an erasure names.
CREATE INDEX {i}intent_subject ON {s}intent (subject) WHERE subject IS NOT NULL;

CREATE TRIGGER {i}intent_immutable BEFORE UPDATE ON {s}intent
BEGIN
    SELECT RAISE(ABORT, 'consign: rows of {s}intent are never changed');
END;

-- The narrow mutable half of an intent, one to one by ref. There is no foreign
-- key: after an erasure this row stays alone as the tombstone (ref, digest, status,
-- uncertain, when), so that its ref can never be used again.
--
-- Not WITHOUT ROWID: an update of such a row removes it and puts it back, where a
-- rowid table writes it in place. No column that a claim or a start sets is in any
-- index; "terminal" repeats the status only once it is final, for the same reason.
CREATE TABLE {s}delivery (
    ref          BLOB NOT NULL PRIMARY KEY,
    created_at   INTEGER NOT NULL,
    route        TEXT NOT NULL,
    profile      INTEGER NOT NULL,
    gate_index   INTEGER,
    gate_task    TEXT,                               -- null: waits for nobody
    -- the contract as copied when the intent was created, or at its first claim
    deadline     INTEGER,
    lease_ms     INTEGER,
    timeout_ms   INTEGER,
    max_attempts INTEGER,                            -- null: driven by hand, no limit
    max_age_ms   INTEGER,
    retry        INTEGER NOT NULL,                   -- 0 unclaimed, 1 process, 2 schedule
    idempotent   INTEGER NOT NULL DEFAULT 0,
    -- the state
    status       INTEGER NOT NULL DEFAULT 0,
    in_flight    INTEGER NOT NULL DEFAULT 0,
    uncertain    INTEGER NOT NULL DEFAULT 0,
    attempts     INTEGER NOT NULL DEFAULT 0,
    crashes      INTEGER NOT NULL DEFAULT 0,
    generation   INTEGER NOT NULL DEFAULT 0,
    revision     INTEGER NOT NULL DEFAULT 0,
    due_at       INTEGER,                            -- set while somebody may still claim it
    updated_at   INTEGER NOT NULL,
    lease_until  INTEGER,
    started_at   INTEGER,
    review_at    INTEGER,                            -- from when on a person is asked to look
    erased_at    INTEGER,
    owner        BLOB,
    program      TEXT,
    digest       BLOB,
    code         TEXT,
    last_error   TEXT,
    terminal     INTEGER,                            -- the status, once it is final
    -- What never changes after the contract was copied is a constraint of its own,
    -- because SQLite leaves out those whose columns an update does not name.
    CONSTRAINT delivery_contract CHECK (
        length(ref) = 16 AND profile IN (1, 2) AND retry BETWEEN 0 AND 2 AND idempotent IN (0, 1)
        AND (profile = 2 OR retry = 2)
        AND (retry = 0) = (lease_ms IS NULL) AND (retry = 0) = (timeout_ms IS NULL)
    ),
    -- The same for the parts of the state that only some changes set.
    CONSTRAINT delivery_owner CHECK (generation >= 0 AND (owner IS NULL OR length(owner) = 16)),
    CONSTRAINT delivery_digest CHECK (digest IS NULL OR length(digest) = 32),
    -- Lines of "not this, or that": SQLite jumps over a line that does not apply.
    CONSTRAINT delivery_state CHECK (
        status BETWEEN 0 AND 6
        AND revision >= 0 AND crashes >= 0 AND attempts >= 0 AND (max_attempts IS NULL OR attempts <= max_attempts)
        AND (uncertain = 0 OR uncertain = 1 AND status <> 3 AND status <> 5)
        AND (erased_at IS NULL OR due_at IS NULL AND owner IS NULL AND review_at IS NULL AND last_error IS NULL
            AND gate_task IS NULL)
        AND (status > 1 OR terminal IS NULL AND in_flight = 0 AND (status = 1 OR owner IS NULL)
            AND (lease_until IS NULL OR owner IS NOT NULL)
            AND (erased_at IS NOT NULL OR due_at IS NOT NULL AND (status = 0 OR owner IS NOT NULL AND lease_until IS NOT NULL)))
        AND (status <> 2 OR terminal IS NULL AND in_flight BETWEEN 0 AND 1
            AND (lease_until IS NULL OR owner IS NOT NULL) AND (due_at IS NULL OR retry = 2)
            AND (erased_at IS NOT NULL OR (owner IS NULL OR lease_until IS NOT NULL)
                AND (retry = 1 OR in_flight = 1 AND (retry = 0 OR due_at IS NOT NULL))))
        AND (status < 3 OR terminal IS status AND in_flight = 0 AND due_at IS NULL AND lease_until IS NULL
            AND (status = 3 OR profile = CASE status WHEN 4 THEN 2 ELSE 1 END))
        -- No function: with one, SQLite keeps a copy of each page that an update of many rows changes.
        AND (code IS NULL
            OR code = 'RECORD_CHANGED' OR code = 'REQUEST_CHANGED' OR code = 'POST_EFFECT_CALLBACK_FAILED'
            OR code = 'AUTHORITY_REVOKED' OR code = 'DELIVERY_NOT_PERMITTED' OR code = 'TARGET_UNAVAILABLE'
            OR code = 'CANCELLED_BY_HANDLER' OR code = 'CANCELLED_BY_OPERATOR' OR code = 'REQUEST_INVALID'
            OR code = 'INPUT_UNREADABLE' OR code = 'EFFECT_NOT_CALLED' OR code = 'HANDLER_MISSING'
            OR code = 'HANDLER_CHANGED' OR code = 'CHANNEL_MISSING' OR code = 'OUTCOME_UNKNOWN'
            OR code = 'REJECTED' OR code = 'DEADLINE_EXPIRED' OR code = 'ATTEMPTS_EXHAUSTED'
            OR code = 'POISONED' OR code = 'INTERRUPTED')
    )
) STRICT;

-- The one due index. Neither claim nor start touches it.
CREATE INDEX {i}delivery_due ON {s}delivery (route, due_at, ref) WHERE due_at IS NOT NULL;
-- Lower indexes of a task that may still stand before a higher one.
CREATE INDEX {i}delivery_gate ON {s}delivery (gate_task, gate_index) WHERE gate_task IS NOT NULL AND terminal IS NULL;
-- Ended deliveries by age, for retention, lists and counts. The profile leads it,
-- so that pruning one profile does not read through the other.
CREATE INDEX {i}delivery_terminal ON {s}delivery (profile, terminal, created_at, ref) WHERE terminal IS NOT NULL;
-- What waits for a person, oldest first; a started process-owned message is in it
-- from its start, dated at the end of its lease.
CREATE INDEX {i}delivery_review ON {s}delivery (review_at, ref) WHERE review_at IS NOT NULL;

-- Attempts that were not a plain success, and what late owners saw.
CREATE TABLE {s}attempt (
    ref         BLOB NOT NULL,
    generation  INTEGER NOT NULL,
    number      INTEGER NOT NULL,
    late        INTEGER NOT NULL DEFAULT 0,          -- appended after the claim was lost
    outcome     INTEGER NOT NULL,
    http_status INTEGER,
    wait_ms     INTEGER,
    started_at  INTEGER,
    at          INTEGER NOT NULL,
    code        TEXT,
    error       TEXT,
    proof       TEXT,                                -- what a receiver signed
    PRIMARY KEY (ref, generation, number, late),
    CONSTRAINT attempt_shape CHECK (
        length(ref) = 16 AND outcome BETWEEN 1 AND 6 AND generation > 0 AND number > 0 AND late IN (0, 1)
    )
) STRICT, WITHOUT ROWID;

-- Findings of people about intents in review. Append-only; a wrong one is
-- superseded by another.
CREATE TABLE {s}resolution (
    id          BLOB NOT NULL PRIMARY KEY,
    ref         BLOB NOT NULL,
    at          INTEGER NOT NULL,
    outcome     INTEGER NOT NULL,                    -- 1 delivered, 2 not delivered, 3 abandoned
    source      INTEGER NOT NULL DEFAULT 1,          -- 1 person, 2 late evidence, 3 proof
    supersedes  BLOB UNIQUE,
    made_by     TEXT NOT NULL,
    evidence    TEXT,                                -- null once erased
    CONSTRAINT resolution_shape CHECK (outcome BETWEEN 1 AND 3 AND source BETWEEN 1 AND 3)
) STRICT;
CREATE INDEX {i}resolution_ref ON {s}resolution (ref, at);

-- One row for every admitted operation execution.
CREATE TABLE {s}run (
    id               BLOB NOT NULL PRIMARY KEY,
    created_at       INTEGER NOT NULL,
    sealed_at        INTEGER,
    approval_id      BLOB UNIQUE,                    -- an approval is consumed at most once
    operation        TEXT NOT NULL,
    actor            TEXT NOT NULL,
    tenant           TEXT NOT NULL,
    security_version TEXT,
    target           TEXT,
    target_version   TEXT,
    subject          TEXT,
    input_digest     BLOB,
    receipt          TEXT,
    work             BLOB,                           -- refs of its work, 16 bytes each, in the order of the receipt
    CONSTRAINT run_shape CHECK (
        length(id) = 16
        AND length(CAST(receipt AS BLOB)) <= 4096
        AND length(work) % 16 = 0
        AND (sealed_at IS NULL OR security_version IS NOT NULL AND target IS NOT NULL AND target_version IS NOT NULL)
    )
) STRICT;
CREATE INDEX {i}run_subject ON {s}run (subject) WHERE subject IS NOT NULL;

-- What a person is asked to sign off before an operation runs. An erasure takes
-- target, subject, input and the two texts, and ends the time of what is not
-- consumed: without its target it would fit another run.
CREATE TABLE {s}approval (
    id              BLOB NOT NULL PRIMARY KEY,
    created_at      INTEGER NOT NULL,
    expires_at      INTEGER NOT NULL,
    operation       TEXT NOT NULL,
    actor           TEXT NOT NULL,
    tenant          TEXT NOT NULL,
    target          TEXT,                            -- null: the operation creates it
    subject         TEXT,
    input           TEXT,                            -- canonical JSON, what a person is shown
    input_digest    BLOB NOT NULL,
    proposer        TEXT NOT NULL,
    reason          TEXT,                            -- why it is proposed
    other_confirmer INTEGER NOT NULL DEFAULT 0,      -- the proposer may not confirm it
    status          INTEGER NOT NULL DEFAULT 0,      -- 0 open, 1 confirmed, 2 dismissed, 3 consumed
    decided_by      TEXT,
    decided_at      INTEGER,
    decision        TEXT,                            -- why it was confirmed or dismissed
    run_id          BLOB UNIQUE,
    consumed_at     INTEGER,
    CONSTRAINT approval_shape CHECK (
        length(id) = 16 AND status BETWEEN 0 AND 3 AND other_confirmer BETWEEN 0 AND 1
        AND length(input_digest) = 32
        AND (input IS NULL OR length(CAST(input AS BLOB)) <= 16384)
        AND NOT (other_confirmer = 1 AND (status = 1 OR status = 3) AND decided_by = proposer)
        AND (status = 0) = (decided_at IS NULL) AND (decided_at IS NULL) = (decided_by IS NULL)
        AND (status = 3) = (consumed_at IS NOT NULL) AND (status = 3) = (run_id IS NOT NULL)
    )
) STRICT;
-- Those that wait for a person, the most urgent first. What has expired lies before
-- the place where a list begins.
CREATE INDEX {i}approval_open ON {s}approval (expires_at, id) WHERE status = 0;
CREATE INDEX {i}approval_subject ON {s}approval (subject) WHERE subject IS NOT NULL;

-- Who did what, when, why, with what before and after. Append-only.
CREATE TABLE {s}audit (
    id          INTEGER PRIMARY KEY,
    at          INTEGER NOT NULL,
    made_by     TEXT NOT NULL,
    action      TEXT NOT NULL,
    ref         BLOB,
    run_id      BLOB,
    approval_id BLOB,
    reason      TEXT,
    before      TEXT,
    after       TEXT
) STRICT;
CREATE INDEX {i}audit_ref ON {s}audit (ref, id) WHERE ref IS NOT NULL;
CREATE INDEX {i}audit_run ON {s}audit (run_id) WHERE run_id IS NOT NULL;
CREATE INDEX {i}audit_approval ON {s}audit (approval_id) WHERE approval_id IS NOT NULL;

CREATE TRIGGER {i}audit_append_only BEFORE UPDATE ON {s}audit
BEGIN
    SELECT RAISE(ABORT, 'consign: rows of {s}audit are never changed');
END;

-- What live programs serve, so that no program stops what another one serves.
-- SQLite heeds foreign keys only where the connection asks for it, so whoever
-- deletes a program deletes its routes too.
CREATE TABLE {s}program (
    id           BLOB NOT NULL PRIMARY KEY,
    name         TEXT NOT NULL,
    started_at   INTEGER NOT NULL,
    heartbeat_at INTEGER NOT NULL
) STRICT;
CREATE TABLE {s}program_route (
    program_id   BLOB NOT NULL REFERENCES {s}program ON DELETE CASCADE,
    profile      INTEGER NOT NULL,
    kind         TEXT NOT NULL,
    version      TEXT NOT NULL DEFAULT '',           -- '' of a channel
    fingerprint  BLOB,
    upgrades     INTEGER NOT NULL DEFAULT 0,         -- serves this older version through an upgrader
    -- the contract that is copied onto what is created anew for it
    retry        INTEGER NOT NULL DEFAULT 0,         -- 0: driven by hand
    idempotent   INTEGER NOT NULL DEFAULT 0,
    max_attempts INTEGER,
    lease_ms     INTEGER,
    timeout_ms   INTEGER,
    max_age_ms   INTEGER,
    PRIMARY KEY (program_id, profile, kind, version)
) STRICT, WITHOUT ROWID;

-- Kinds and channels that nobody claims until they are resumed.
CREATE TABLE {s}pause (
    profile INTEGER NOT NULL,
    kind    TEXT NOT NULL,
    at      INTEGER NOT NULL,
    made_by TEXT NOT NULL,
    reason  TEXT,
    PRIMARY KEY (profile, kind)
) STRICT, WITHOUT ROWID;

-- Single values: the deployment name, counts of what retention removed.
CREATE TABLE {s}setting (
    name  TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Numbers, times and identifiers in words, for people with a SQL prompt.
CREATE VIEW {s}delivery_words AS
SELECT lower(substr(hex(d.ref), 1, 8) || '-' || substr(hex(d.ref), 9, 4) || '-' || substr(hex(d.ref), 13, 4) || '-' ||
             substr(hex(d.ref), 17, 4) || '-' || substr(hex(d.ref), 21)) AS ref,
       CASE d.profile WHEN 1 THEN 'work' ELSE 'message' END AS profile,
       i.kind,
       CASE d.status
           WHEN 0 THEN 'pending' WHEN 1 THEN 'leased' WHEN 2 THEN 'delivering' WHEN 3 THEN 'succeeded'
           WHEN 4 THEN 'failed' WHEN 5 THEN 'cancelled' ELSE 'reconciliation_required' END AS status,
       d.code, d.uncertain, d.attempts, d.generation,
       strftime('%Y-%m-%dT%H:%M:%fZ', d.due_at / 1000000.0, 'unixepoch') AS due_at,
       strftime('%Y-%m-%dT%H:%M:%fZ', d.lease_until / 1000000.0, 'unixepoch') AS lease_until,
       strftime('%Y-%m-%dT%H:%M:%fZ', d.created_at / 1000000.0, 'unixepoch') AS created_at,
       strftime('%Y-%m-%dT%H:%M:%fZ', d.updated_at / 1000000.0, 'unixepoch') AS updated_at,
       strftime('%Y-%m-%dT%H:%M:%fZ', d.deadline / 1000000.0, 'unixepoch') AS deadline,
       d.program, d.last_error,
       strftime('%Y-%m-%dT%H:%M:%fZ', d.erased_at / 1000000.0, 'unixepoch') AS erased_at
FROM {s}delivery d LEFT JOIN {s}intent i ON i.ref = d.ref;

-- Enqueue from any language: the contract is in docs/sql.md, and everything below
-- serves it. A row inserted into view enqueue_message is a message in the caller's
-- transaction. There are no stored functions to do the work, so its steps are views
-- too, whose triggers are called by an INSERT and hand on what they made. No view
-- ever has rows.
--
-- No statement here meets a conflict of keys, because it would be resolved as the
-- caller's own statement says: INSERT OR REPLACE would replace a delivery. RAISE
-- takes a fixed text only, so that the first fault is named instead of all.

-- All bytes in order: substr makes a byte of a number, instr a number of a byte.
CREATE VIEW {s}enqueue_bytes (bytes) AS
SELECT CAST(
    x'000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f' ||
    x'202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f' ||
    x'404142434445464748494a4b4c4d4e4f505152535455565758595a5b5c5d5e5f' ||
    x'606162636465666768696a6b6c6d6e6f707172737475767778797a7b7c7d7e7f' ||
    x'808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9f' ||
    x'a0a1a2a3a4a5a6a7a8a9aaabacadaeafb0b1b2b3b4b5b6b7b8b9babbbcbdbebf' ||
    x'c0c1c2c3c4c5c6c7c8c9cacbcccdcecfd0d1d2d3d4d5d6d7d8d9dadbdcdddedf' ||
    x'e0e1e2e3e4e5e6e7e8e9eaebecedeeeff0f1f2f3f4f5f6f7f8f9fafbfcfdfeff' AS BLOB);

-- What users insert into. The first column is the version of its own contract.
CREATE VIEW {s}enqueue_message (contract, channel, payload, recipient, id, task, task_index, subject, not_before) AS
SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL WHERE 0;

CREATE TRIGGER {i}enqueue_message INSTEAD OF INSERT ON {s}enqueue_message
BEGIN
    SELECT CASE
        WHEN NEW.contract IS NOT 1 THEN RAISE(ABORT, 'consign: enqueue: contract is not known here, 1 is')
        WHEN length(CAST('a' AS BLOB)) <> 1 THEN RAISE(ABORT, 'consign: enqueue: the database is in UTF-16, it must be in UTF-8')
        WHEN typeof(NEW.channel) <> 'text' OR length(CAST(NEW.channel AS BLOB)) NOT BETWEEN 1 AND 128
            THEN RAISE(ABORT, 'consign: enqueue: channel limit 1 to 128 bytes of text')
        WHEN NEW.channel GLOB '*[^ -~]*' OR instr(CAST(NEW.channel AS BLOB), x'00') > 0
            THEN RAISE(ABORT, 'consign: enqueue: channel is not printable ASCII')
        WHEN NEW.recipient IS NOT NULL AND typeof(NEW.recipient) <> 'text' OR length(CAST(NEW.recipient AS BLOB)) > 2048
            THEN RAISE(ABORT, 'consign: enqueue: recipient limit 0 to 2048 bytes of text')
        WHEN NEW.task IS NOT NULL AND typeof(NEW.task) <> 'text' OR length(CAST(NEW.task AS BLOB)) > 128
            THEN RAISE(ABORT, 'consign: enqueue: task limit 0 to 128 bytes of text')
        WHEN NEW.subject IS NOT NULL AND typeof(NEW.subject) <> 'text' OR length(CAST(NEW.subject AS BLOB)) > 128
            THEN RAISE(ABORT, 'consign: enqueue: subject limit 0 to 128 bytes of text')
        WHEN ifnull(NEW.recipient, '') || ifnull(NEW.task, '') || ifnull(NEW.subject, '')
             GLOB '*[' || char(1) || '-' || char(31) || char(127) || '-' || char(159) || ']*'
            THEN RAISE(ABORT, 'consign: enqueue: recipient, task or subject contains a control character')
        WHEN NEW.task_index IS NOT NULL AND (
                typeof(NEW.task_index) NOT IN ('integer', 'real') OR NEW.task_index <> CAST(NEW.task_index AS INTEGER)
                OR NEW.task_index NOT BETWEEN 0 AND 2147483647)
            THEN RAISE(ABORT, 'consign: enqueue: task_index limit 0 to 2147483647')
        WHEN NEW.id IS NOT NULL AND NOT CASE typeof(NEW.id)
                WHEN 'blob' THEN length(NEW.id) = 16
                WHEN 'text' THEN length(CAST(NEW.id AS BLOB)) = 36 AND NEW.id GLOB '????????-????-????-????-????????????'
                    AND length(replace(NEW.id, '-', '')) = 32 AND replace(NEW.id, '-', '') NOT GLOB '*[^0-9a-fA-F]*'
                ELSE 0 END
            THEN RAISE(ABORT, 'consign: enqueue: id is neither a UUID of 36 characters nor 16 bytes')
        WHEN NEW.id = zeroblob(16) OR NEW.id = '00000000-0000-0000-0000-000000000000'
            THEN RAISE(ABORT, 'consign: enqueue: id is the zero UUID, which names nothing')
        WHEN NEW.not_before IS NOT NULL AND NOT (
                typeof(NEW.not_before) = 'text' AND (NEW.not_before GLOB '????-??-??[T ]??:??*Z'
                    OR NEW.not_before GLOB '????-??-??[T ]??:??*[+-]??:??')
                AND ifnull(julianday(NEW.not_before) >= 2440587.5 AND julianday(NEW.not_before) < 5373484.5, 0))
            THEN RAISE(ABORT, 'consign: enqueue: not_before is not a time such as 2026-01-31T09:30:00Z, of the years 1970 to 9999')
        WHEN typeof(NEW.payload) <> 'text' OR length(CAST(NEW.payload AS BLOB)) > 32768
            THEN RAISE(ABORT, 'consign: enqueue: payload limit 32768 bytes of JSON text')
        WHEN NOT json_valid(NEW.payload) THEN RAISE(ABORT, 'consign: enqueue: payload is not JSON')
        WHEN json_type(NEW.payload) <> 'object' THEN RAISE(ABORT, 'consign: enqueue: payload must be an object')
        WHEN instr(replace(NEW.payload, '\\', ''), '\u0000') > 0 THEN RAISE(ABORT, 'consign: enqueue: payload contains U+0000')
    END;
    INSERT INTO {s}enqueue_text (value)
    VALUES (ifnull(NEW.recipient, '') || '|' || ifnull(NEW.task, '') || '|' || ifnull(NEW.subject, '') || '|' || NEW.payload);

    INSERT INTO {s}enqueue_checked (ref, channel, recipient, task, task_index, subject, due_at, payload)
    SELECT CASE typeof(NEW.id)
               WHEN 'blob' THEN NEW.id
               WHEN 'text' THEN (
                   WITH RECURSIVE place (at) AS (SELECT 1 UNION ALL SELECT at + 2 FROM place WHERE at < 31)
                   SELECT CAST(group_concat(substr(bytes,
                              instr('0123456789abcdef', substr(digits, at, 1)) * 16
                              + instr('0123456789abcdef', substr(digits, at + 1, 1)) - 16, 1), '') AS BLOB)
                   FROM place, (SELECT lower(replace(NEW.id, '-', '')) AS digits), {s}enqueue_bytes)
               ELSE ( -- UUIDv7: 48 bits of milliseconds before the random ones
                   SELECT CAST(substr(bytes, (ms >> 40 & 255) + 1, 1) || substr(bytes, (ms >> 32 & 255) + 1, 1)
                       || substr(bytes, (ms >> 24 & 255) + 1, 1) || substr(bytes, (ms >> 16 & 255) + 1, 1)
                       || substr(bytes, (ms >> 8 & 255) + 1, 1) || substr(bytes, (ms & 255) + 1, 1)
                       || substr(bytes, (random() & 15) + 113, 1) || randomblob(1)
                       || substr(bytes, (random() & 63) + 129, 1) || randomblob(7) AS BLOB)
                   FROM (SELECT {now} / 1000 AS ms), {s}enqueue_bytes)
               END,
           NEW.channel, ifnull(NEW.recipient, ''), nullif(NEW.task, ''), CAST(ifnull(NEW.task_index, 0) AS INTEGER),
           nullif(NEW.subject, ''),
           max({now}, ifnull(CAST(round((julianday(NEW.not_before) - 2440587.5) * 86400000.0) AS INTEGER) * 1000, 0)),
           (
    -- The canonical form of RFC 8785, or a word for what it cannot have. The text is
    -- taken apart token by token. Each piece of the result is given its place as a
    -- text, so that sorting puts it together again: for every level the name of the
    -- member, or the number of the token in an array, and a comma, which sorts before
    -- all of those; '~' closes. Each value brings a comma along, and char(1) behind
    -- an opening bracket marks one that has to go: no JSON text has that character.
    WITH RECURSIVE source (text) AS (
        -- With escaped backslashes and quotation marks out of the way, the next
        -- quotation mark is the end of a string.
        SELECT CAST(replace(replace(NEW.payload, '\\', '\u005c'), '\"', '\u0022') AS BLOB)
    ),
    step (at, token, n, kinds, path, name, slot, named, place, front, said) AS (
        SELECT 1, NULL, 0, '', '', '', '', 0, NULL, NULL, NULL
        UNION ALL
        SELECT 1 + length(text) - length(CAST(ltrim(CAST(substr(text, at) AS TEXT), char(32, 9, 10, 13)) AS BLOB)),
               NULL, n, kinds, path, name, slot, named, NULL, NULL, NULL
        FROM step CROSS JOIN source
        WHERE token IS NULL AND instr(x'20090a0d', substr(text, at, 1)) > 0 AND at <= length(text)
        UNION ALL
        SELECT at, CAST(substr(text, at, CASE
                       WHEN substr(text, at, 1) = x'22' THEN instr(substr(text, at + 1), x'22') + 1
                       WHEN instr(CAST('{}[]:,' AS BLOB), substr(text, at, 1)) > 0 THEN 1
                       ELSE length(substr(text, at))
                            - length(CAST(ltrim(CAST(substr(text, at) AS TEXT), '0123456789+-.eEtrufalsn') AS BLOB))
                       END) AS TEXT),
               n + 1, kinds, path, name, slot, named, NULL, NULL, NULL
        FROM step CROSS JOIN source
        WHERE token IS NULL AND instr(x'20090a0d', substr(text, at, 1)) = 0 AND at <= length(text) AND length(kinds) <= 8
        UNION ALL
        SELECT at + length(CAST(token AS BLOB)), NULL, n,
               CASE WHEN instr('{[', token) > 0 THEN kinds || token
                    WHEN instr('}]', token) > 0 THEN substr(kinds, 1, length(kinds) - 1)
                    ELSE kinds END,
               CASE WHEN instr('{[', token) > 0
                    THEN path || CASE substr(kinds, -1) WHEN '[' THEN printf('%06d', n) ELSE slot END || ','
                    WHEN instr('}]', token) > 0 THEN rtrim(substr(path, 1, length(path) - 1), '0123456789ABCDEF')
                    ELSE path END,
               CASE WHEN named AND token GLOB '"*' THEN json_quote(json_extract(token, '$')) || ':'
                    WHEN instr('{[,', token) > 0 THEN ''
                    ELSE name END,
               -- Members are in the order of their names in UTF-16. That is the order of the bytes in UTF-8, if those
               -- that begin U+E000 to U+FFFF (EE, EF) come behind those of the planes above (F0 to F4).
               CASE WHEN named AND token GLOB '"*'
                    THEN hex(replace(replace(json_extract(token, '$'), CAST(x'EF' AS TEXT), CAST(x'F6' AS TEXT)),
                             CAST(x'EE' AS TEXT), CAST(x'F5' AS TEXT)))
                    WHEN instr('{[,', token) > 0 THEN ''
                    ELSE slot END,
               token = '{' OR token = ',' AND substr(kinds, -1) = '{',
               CASE WHEN instr(':,', token) > 0 OR named AND token GLOB '"*' THEN NULL
                    WHEN instr('}]', token) > 0 THEN path || '~'
                    ELSE path || CASE substr(kinds, -1) WHEN '[' THEN printf('%06d', n) ELSE slot END || ',' END,
               CASE WHEN instr('}]', token) > 0 OR kinds = '' THEN '' ELSE ',' || name END,
               token
        FROM step
        WHERE token IS NOT NULL
    ),
    -- Numbers: 0.digits * 10^point. Up to 15 digits are the shortest that read back as
    -- their double (but for the very small ones), so that nothing needs to be rounded.
    part (place, front, kinds, said, size, whole, digits, exponent) AS (
        SELECT place, front, kinds, said, size, CASE instr(base, '.') WHEN 0 THEN base ELSE substr(base, 1, instr(base, '.') - 1) END,
               replace(base, '.', ''),
               CASE WHEN exponent GLOB '-*' THEN -1 ELSE 1 END * CAST('0' || substr(ltrim(exponent, '+-0'), 1, 6) AS INTEGER)
        FROM (
            SELECT place, front, kinds, said, size, CASE e WHEN 0 THEN size ELSE substr(size, 1, e - 1) END AS base,
                   CASE e WHEN 0 THEN '' ELSE substr(size, e + 1) END AS exponent
            FROM (
                SELECT place, front, kinds, said, ltrim(said, '-') AS size, instr(lower(ltrim(said, '-')), 'e') AS e
                FROM step
                WHERE place IS NOT NULL
            )
        )
    ),
    piece (place, front, kinds, said, size, sign, digits, point) AS (
        SELECT place, front, kinds, said, size, CASE WHEN said GLOB '-*' THEN '-' ELSE '' END, trim(digits, '0'),
               length(whole) + exponent - length(digits) + length(ltrim(digits, '0'))
        FROM part
    )
    SELECT CASE
        WHEN max(length(kinds)) > 8 THEN 'depth'
        WHEN count(*) > count(DISTINCT place) THEN 'twice'
        WHEN max(form = 'integer') THEN 'integer'
        WHEN max(form = 'finite') THEN 'finite'
        WHEN max(form = 'digits') THEN 'digits'
        ELSE replace(replace(group_concat(front || form, ''), char(1) || ',', ''), char(1), '')
        END
    FROM (
        SELECT place, front, kinds, CASE
            WHEN said GLOB '"*' THEN json_quote(json_extract(said, '$'))
            WHEN said IN ('{', '[') THEN said || char(1)
            WHEN said NOT GLOB '[-0-9]*' THEN said
            WHEN said NOT GLOB '*[.eE]*' THEN CASE
                WHEN length(size) > 16 OR CAST(size AS INTEGER) > 9007199254740991 THEN 'integer'
                WHEN size = '0' THEN '0'
                ELSE said END
            WHEN digits = '' THEN '0'
            WHEN point > 309 OR point = 309 AND digits > '179769313486231' THEN 'finite'
            WHEN length(digits) > 15 OR point < -306 THEN 'digits'
            WHEN point BETWEEN 1 AND 21 AND length(digits) <= point THEN CASE
                WHEN point > 16 OR point = 16 AND digits > '9007199254740991' THEN 'integer'
                ELSE sign || digits || substr('000000000000000', 1, point - length(digits)) END
            WHEN point BETWEEN 1 AND 21 THEN sign || substr(digits, 1, point) || '.' || substr(digits, point + 1)
            WHEN point BETWEEN -5 AND 0 THEN sign || '0.' || substr('00000', 1, -point) || digits
            ELSE sign || substr(digits, 1, 1) || CASE length(digits) WHEN 1 THEN '' ELSE '.' || substr(digits, 2) END
                 || CASE WHEN point > 0 THEN 'e+' ELSE 'e-' END || abs(point - 1)
            END AS form
        FROM piece
        ORDER BY place
    ));
END;

-- Refuses what is not UTF-8, by the table of RFC 3629: SQLite takes any bytes for a
-- text. The bytes are looked at in hexadecimal, four at a time.
CREATE VIEW {s}enqueue_text (value) AS SELECT NULL WHERE 0;

CREATE TRIGGER {i}enqueue_text INSTEAD OF INSERT ON {s}enqueue_text
WHEN NEW.value GLOB '*[^' || char(1) || '-' || char(127) || ']*' OR instr(CAST(NEW.value AS BLOB), x'00') > 0
BEGIN
    SELECT RAISE(ABORT, 'consign: enqueue: a text is not valid UTF-8, or contains NUL or a lone surrogate')
    WHERE '' NOT IN (
        WITH RECURSIVE place (at, next) AS (
            SELECT 1, hex(substr(CAST(NEW.value AS BLOB), 1, 4))
            UNION ALL
            SELECT at + 1, hex(substr(CAST(NEW.value AS BLOB), at + 1, 4)) FROM place
            WHERE next GLOB '[1-7]*' OR next GLOB '0[1-9A-F]*'
            UNION ALL
            SELECT at + 2, hex(substr(CAST(NEW.value AS BLOB), at + 2, 4)) FROM place
            WHERE next GLOB 'C[2-9A-F][89AB]*' OR next GLOB 'D?[89AB]*'
            UNION ALL
            SELECT at + 3, hex(substr(CAST(NEW.value AS BLOB), at + 3, 4)) FROM place
            WHERE next GLOB 'E0[AB]?[89AB]*' OR next GLOB 'E[1-9ABCEF][89AB]?[89AB]*' OR next GLOB 'ED[89]?[89AB]*'
            UNION ALL
            SELECT at + 4, hex(substr(CAST(NEW.value AS BLOB), at + 4, 4)) FROM place
            WHERE next GLOB 'F0[9AB]?[89AB]?[89AB]*' OR next GLOB 'F[123][89AB]?[89AB]?[89AB]*'
               OR next GLOB 'F48?[89AB]?[89AB]*'
        )
        SELECT next FROM place
    );
END;

-- Writes a message whose fields are checked, or finds that it is there.
CREATE VIEW {s}enqueue_checked (ref, channel, recipient, task, task_index, subject, due_at, payload) AS
SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL WHERE 0;

CREATE TRIGGER {i}enqueue_checked INSTEAD OF INSERT ON {s}enqueue_checked
BEGIN
    SELECT CASE NEW.payload
        WHEN 'depth' THEN RAISE(ABORT, 'consign: enqueue: payload is nested deeper than 8 levels')
        WHEN 'twice' THEN RAISE(ABORT, 'consign: enqueue: payload has two members of one name')
        WHEN 'integer' THEN RAISE(ABORT, 'consign: enqueue: payload has an integer larger than 2^53-1 in magnitude: send it as a string')
        WHEN 'finite' THEN RAISE(ABORT, 'consign: enqueue: payload has a number that is not finite')
        WHEN 'digits' THEN RAISE(ABORT, 'consign: enqueue: payload has a fraction of more than 15 digits or below 1e-307: round it or send it as a string')
        ELSE CASE WHEN length(CAST(NEW.payload AS BLOB)) > 16384
            THEN RAISE(ABORT, 'consign: enqueue: payload canonical form larger than 16384 bytes') END
    END;
    INSERT INTO {s}enqueue_text (value) VALUES (NEW.payload);

    -- The delivery is what is left of an erased intent, so both look for it.
    INSERT INTO {s}intent (ref, created_at, profile, task_index, kind, payload_digest, payload, address, task, subject)
    SELECT NEW.ref, {now}, 2, NEW.task_index, NEW.channel, digest.value, NEW.payload, NEW.recipient, NEW.task, NEW.subject
    FROM (
        -- SHA-256 (FIPS 180-4). A row is the state before round t: a to h are the working variables, h0 to h7
        -- the hash so far, w0 to w15 the newest words of the schedule. Operators of bits have one precedence in SQLite, hence the parentheses; x | y - x & y is the
        -- exclusive or. At t = 64 a block is done.
        WITH RECURSIVE message (m, blocks, bytes, constants) AS (
            SELECT CAST(NEW.payload || CAST(x'80' AS TEXT) || zeroblob((119 - size % 64) % 64) || x'0000000000'
                        || substr(bytes, (size >> 13 & 255) + 1, 1) || substr(bytes, (size >> 5 & 255) + 1, 1)
                        || substr(bytes, (size << 3 & 255) + 1, 1) AS BLOB),
                   (size + 72) / 64, bytes,
                   '11163524081899447441304932347139210095730961987163150897099324536357482870763221' ||
                   '36243810800310598401060722527814268819871925078388216207820626148881033248222580' ||
                   '38353904014022224774026434707806048076280770255983124915012215550816921996064986' ||
                   '25542208822821834349295299680832103136713336571891358452871101139269930338241895' ||
                   '06663072050773529912129475737213961822911695183700198666105121770263502456956037' ||
                   '27304859212820302411325973080033457647713516065817360035280440945719090275423344' ||
                   '04302277340506948616065906055608839978770958139571132282221815370020631747873779' ||
                   '19555622222024104815222773045223618524242428436474275673418732040314793329325298'
            FROM (SELECT length(CAST(NEW.payload AS BLOB)) AS size), {s}enqueue_bytes
        ),
        round (block, t, a, b, c, d, e, f, g, h, h0, h1, h2, h3, h4, h5, h6, h7,
               w0, w1, w2, w3, w4, w5, w6, w7, w8, w9, w10, w11, w12, w13, w14, w15) AS (
            SELECT -1, 64, 0, 0, 0, 0, 0, 0, 0, 0,
                   1779033703, 3144134277, 1013904242, 2773480762, 1359893119, 2600822924, 528734635, 1541459225,
                   0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0
            UNION ALL
            SELECT block + 1, 0,
                   (a + h0) & 4294967295, (b + h1) & 4294967295, (c + h2) & 4294967295, (d + h3) & 4294967295,
                   (e + h4) & 4294967295, (f + h5) & 4294967295, (g + h6) & 4294967295, (h + h7) & 4294967295,
                   (a + h0) & 4294967295, (b + h1) & 4294967295, (c + h2) & 4294967295, (d + h3) & 4294967295,
                   (e + h4) & 4294967295, (f + h5) & 4294967295, (g + h6) & 4294967295, (h + h7) & 4294967295,
                   (instr(bytes, substr(m, block * 64 + 64 + 1, 1)) - 1 << 24)
                   + (instr(bytes, substr(m, block * 64 + 64 + 2, 1)) - 1 << 16)
                   + (instr(bytes, substr(m, block * 64 + 64 + 3, 1)) - 1 << 8)
                   + instr(bytes, substr(m, block * 64 + 64 + 4, 1)) - 1,
                   0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0
            FROM round CROSS JOIN message
            WHERE t = 64 AND block + 1 < blocks
            UNION ALL
            SELECT block, t + 1,
                   (h + ((((((e >> 6 | (e << 26)) | (e >> 11 | (e << 21))) - ((e >> 6 | (e << 26)) & (e >> 11 | (e << 21)))) | (e >> 25 | (e << 7)))
                     - ((((e >> 6 | (e << 26)) | (e >> 11 | (e << 21))) - ((e >> 6 | (e << 26)) & (e >> 11 | (e << 21)))) & (e >> 25 | (e << 7)))) & 4294967295)
                    + (e & f | (~e & g)) + w0 + substr(constants, t * 10 + 1, 10)
                    + ((((((a >> 2 | (a << 30)) | (a >> 13 | (a << 19))) - ((a >> 2 | (a << 30)) & (a >> 13 | (a << 19)))) | (a >> 22 | (a << 10)))
                     - ((((a >> 2 | (a << 30)) | (a >> 13 | (a << 19))) - ((a >> 2 | (a << 30)) & (a >> 13 | (a << 19)))) & (a >> 22 | (a << 10)))) & 4294967295)
                    + (a & b | (c & (a | b)))) & 4294967295,
                   a, b, c,
                   (d + h + ((((((e >> 6 | (e << 26)) | (e >> 11 | (e << 21))) - ((e >> 6 | (e << 26)) & (e >> 11 | (e << 21)))) | (e >> 25 | (e << 7)))
                     - ((((e >> 6 | (e << 26)) | (e >> 11 | (e << 21))) - ((e >> 6 | (e << 26)) & (e >> 11 | (e << 21)))) & (e >> 25 | (e << 7)))) & 4294967295)
                    + (e & f | (~e & g)) + w0 + substr(constants, t * 10 + 1, 10)) & 4294967295,
                   e, f, g, h0, h1, h2, h3, h4, h5, h6, h7,
                   CASE WHEN t < 15
                   THEN (instr(bytes, substr(m, block * 64 + t * 4 + 4 + 1, 1)) - 1 << 24)
                   + (instr(bytes, substr(m, block * 64 + t * 4 + 4 + 2, 1)) - 1 << 16)
                   + (instr(bytes, substr(m, block * 64 + t * 4 + 4 + 3, 1)) - 1 << 8)
                   + instr(bytes, substr(m, block * 64 + t * 4 + 4 + 4, 1)) - 1
                   ELSE (((((((w1 >> 17 | (w1 << 15)) | (w1 >> 19 | (w1 << 13))) - ((w1 >> 17 | (w1 << 15)) & (w1 >> 19 | (w1 << 13)))) | (w1 >> 10))
                     - ((((w1 >> 17 | (w1 << 15)) | (w1 >> 19 | (w1 << 13))) - ((w1 >> 17 | (w1 << 15)) & (w1 >> 19 | (w1 << 13)))) & (w1 >> 10))) & 4294967295) + w6
                    + ((((((w14 >> 7 | (w14 << 25)) | (w14 >> 18 | (w14 << 14))) - ((w14 >> 7 | (w14 << 25)) & (w14 >> 18 | (w14 << 14)))) | (w14 >> 3))
                     - ((((w14 >> 7 | (w14 << 25)) | (w14 >> 18 | (w14 << 14))) - ((w14 >> 7 | (w14 << 25)) & (w14 >> 18 | (w14 << 14)))) & (w14 >> 3))) & 4294967295) + w15) & 4294967295
                   END,
                   w0, w1, w2, w3, w4, w5, w6, w7, w8, w9, w10, w11, w12, w13, w14
            FROM round CROSS JOIN message
            WHERE t < 64
        )
        SELECT CAST(
                    substr(bytes, (a + h0 >> 24 & 255) + 1, 1) || substr(bytes, (a + h0 >> 16 & 255) + 1, 1) || substr(bytes, (a + h0 >> 8 & 255) + 1, 1) || substr(bytes, (a + h0 >> 0 & 255) + 1, 1) ||
                    substr(bytes, (b + h1 >> 24 & 255) + 1, 1) || substr(bytes, (b + h1 >> 16 & 255) + 1, 1) || substr(bytes, (b + h1 >> 8 & 255) + 1, 1) || substr(bytes, (b + h1 >> 0 & 255) + 1, 1) ||
                    substr(bytes, (c + h2 >> 24 & 255) + 1, 1) || substr(bytes, (c + h2 >> 16 & 255) + 1, 1) || substr(bytes, (c + h2 >> 8 & 255) + 1, 1) || substr(bytes, (c + h2 >> 0 & 255) + 1, 1) ||
                    substr(bytes, (d + h3 >> 24 & 255) + 1, 1) || substr(bytes, (d + h3 >> 16 & 255) + 1, 1) || substr(bytes, (d + h3 >> 8 & 255) + 1, 1) || substr(bytes, (d + h3 >> 0 & 255) + 1, 1) ||
                    substr(bytes, (e + h4 >> 24 & 255) + 1, 1) || substr(bytes, (e + h4 >> 16 & 255) + 1, 1) || substr(bytes, (e + h4 >> 8 & 255) + 1, 1) || substr(bytes, (e + h4 >> 0 & 255) + 1, 1) ||
                    substr(bytes, (f + h5 >> 24 & 255) + 1, 1) || substr(bytes, (f + h5 >> 16 & 255) + 1, 1) || substr(bytes, (f + h5 >> 8 & 255) + 1, 1) || substr(bytes, (f + h5 >> 0 & 255) + 1, 1) ||
                    substr(bytes, (g + h6 >> 24 & 255) + 1, 1) || substr(bytes, (g + h6 >> 16 & 255) + 1, 1) || substr(bytes, (g + h6 >> 8 & 255) + 1, 1) || substr(bytes, (g + h6 >> 0 & 255) + 1, 1) ||
                    substr(bytes, (h + h7 >> 24 & 255) + 1, 1) || substr(bytes, (h + h7 >> 16 & 255) + 1, 1) || substr(bytes, (h + h7 >> 8 & 255) + 1, 1) || substr(bytes, (h + h7 >> 0 & 255) + 1, 1) AS BLOB) AS value
        FROM round CROSS JOIN message
        WHERE t = 64 AND block + 1 = blocks
    ) AS digest
    WHERE NOT EXISTS (SELECT 1 FROM {s}delivery d WHERE d.ref = NEW.ref);
    INSERT INTO {s}delivery (ref, created_at, updated_at, route, profile, gate_task, gate_index, due_at, retry)
    SELECT NEW.ref, {now}, {now}, 'm:' || NEW.channel, 2, NEW.task, CASE WHEN NEW.task IS NOT NULL THEN NEW.task_index END,
           NEW.due_at, 0
    WHERE NOT EXISTS (SELECT 1 FROM {s}delivery d WHERE d.ref = NEW.ref);
    SELECT RAISE(ABORT, 'consign: enqueue: the id exists with other content')
    WHERE NOT EXISTS (
        SELECT 1 FROM {s}intent i JOIN {s}delivery d ON d.ref = i.ref
        WHERE i.ref = NEW.ref AND i.profile = 2 AND i.kind = NEW.channel AND i.address = NEW.recipient
          AND i.payload = NEW.payload AND i.task_index = NEW.task_index AND i.task IS NEW.task AND i.subject IS NEW.subject
    );
END;
