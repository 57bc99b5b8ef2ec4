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
    delivery_key     BLOB NOT NULL,
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
        length(ref) = 16 AND length(delivery_key) = 16
        AND length(CAST(kind AS BLOB)) BETWEEN 1 AND 128
        AND length(payload_digest) = 32
        AND link BETWEEN 0 AND 2
        AND (link = 0) = (predecessor IS NULL)
        AND (link = 1 OR delivery_key = ref)
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

-- A work key is unique within its run; what a redelivery carries over is not new.
CREATE UNIQUE INDEX {i}intent_run_key ON {s}intent (run_id, work_key) WHERE run_id IS NOT NULL AND predecessor IS NULL;
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
    terminal     INTEGER GENERATED ALWAYS AS (CASE WHEN status >= 3 THEN status END) STORED,
    -- What never changes after the contract was copied is a constraint of its own,
    -- because SQLite leaves out those whose columns an update does not name.
    CONSTRAINT delivery_contract CHECK (
        length(ref) = 16 AND profile IN (1, 2) AND retry BETWEEN 0 AND 2 AND idempotent IN (0, 1)
        AND (profile = 2 OR retry = 2)
        AND (retry = 0) = (lease_ms IS NULL) AND (retry = 0) = (timeout_ms IS NULL)
    ),
    -- Lines of "not this, or that": SQLite jumps over a line that does not apply.
    CONSTRAINT delivery_state CHECK (
        status BETWEEN 0 AND 6
        AND generation >= 0 AND revision >= 0 AND crashes >= 0 AND attempts >= 0
        AND (max_attempts IS NULL OR attempts <= max_attempts)
        AND (digest IS NULL OR length(digest) = 32) AND (owner IS NULL OR length(owner) = 16)
        AND uncertain BETWEEN 0 AND 1 AND in_flight BETWEEN 0 AND 1
        AND (in_flight = 0 OR status = 2)
        AND (lease_until IS NULL OR owner IS NOT NULL AND status BETWEEN 1 AND 2)
        AND (due_at IS NULL OR status < 2 OR status = 2 AND retry = 2)
        AND (status <> 0 OR owner IS NULL AND (erased_at IS NOT NULL OR due_at IS NOT NULL))
        AND (status <> 1 OR erased_at IS NOT NULL OR due_at IS NOT NULL AND owner IS NOT NULL AND lease_until IS NOT NULL)
        AND (status <> 2 OR erased_at IS NOT NULL OR (owner IS NULL OR lease_until IS NOT NULL)
            AND (retry = 1 OR in_flight = 1 AND (retry = 0 OR due_at IS NOT NULL)))
        AND (uncertain = 0 OR status <> 3 AND status <> 5)
        AND (status < 4 OR profile = CASE status WHEN 4 THEN 2 ELSE 1 END)
        AND (erased_at IS NULL OR due_at IS NULL AND owner IS NULL AND review_at IS NULL AND last_error IS NULL
            AND gate_task IS NULL)
        AND (code IS NULL OR instr(code, ' ') = 0 AND instr(' RECORD_CHANGED REQUEST_CHANGED POST_EFFECT_CALLBACK_FAILED'
            || ' AUTHORITY_REVOKED DELIVERY_NOT_PERMITTED TARGET_UNAVAILABLE CANCELLED_BY_HANDLER CANCELLED_BY_OPERATOR'
            || ' REQUEST_INVALID INPUT_UNREADABLE EFFECT_NOT_CALLED HANDLER_MISSING HANDLER_CHANGED CHANNEL_MISSING'
            || ' OUTCOME_UNKNOWN REJECTED DEADLINE_EXPIRED ATTEMPTS_EXHAUSTED POISONED INTERRUPTED ', ' ' || code || ' ') > 0)
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
    proof       BLOB,                                -- what a receiver signed
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
