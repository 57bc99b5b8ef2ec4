-- Consign schema 1. Programs from schema 1 on work with it.
-- oldest: 1
--
-- {s} is the schema and a dot. Enumerations are stored as the numbers of
-- package lifecycle; view {s}delivery_words spells them out for people.

-- What to deliver, to whom, on whose behalf. Written once, never updated: the
-- trigger below holds that. Deleted only by retention and erasure.
CREATE TABLE {s}intent (
    ref              uuid PRIMARY KEY,
    created_at       timestamptz NOT NULL,
    delivery_key     uuid NOT NULL,
    run_id           uuid,
    predecessor      uuid,
    profile          smallint NOT NULL,               -- 1 work, 2 message
    link             smallint NOT NULL DEFAULT 0,     -- 0 first, 1 redelivery, 2 reissue
    task_index       integer NOT NULL DEFAULT 0,
    kind             text COLLATE "C" NOT NULL,       -- kind of work, or channel
    payload_digest   bytea NOT NULL,
    payload          text NOT NULL,                   -- canonical JSON, RFC 8785
    version          text,
    fingerprint      bytea,
    work_key         text COLLATE "C",
    operation        text,
    actor            text,
    tenant           text,
    security_version text,
    target           text,
    target_version   text,
    address          text,
    task             text COLLATE "C",
    subject          text COLLATE "C",
    trace            text,
    CONSTRAINT intent_shape CHECK (
        profile IN (1, 2)
        AND octet_length(kind) BETWEEN 1 AND 128
        AND octet_length(payload_digest) = 32
        AND link IN (0, 1, 2)
        AND (link = 0) = (predecessor IS NULL)
        AND (link = 1 OR delivery_key = ref)
        AND CASE profile
            WHEN 1 THEN octet_length(payload) <= 4096
                AND version IS NOT NULL AND fingerprint IS NOT NULL AND octet_length(fingerprint) = 32
                AND run_id IS NOT NULL AND work_key IS NOT NULL AND octet_length(work_key) BETWEEN 1 AND 128
                AND operation IS NOT NULL AND actor IS NOT NULL AND tenant IS NOT NULL
                AND security_version IS NOT NULL AND target IS NOT NULL AND target_version IS NOT NULL
                AND address IS NULL AND task IS NULL
            ELSE address IS NOT NULL
                AND version IS NULL AND fingerprint IS NULL AND run_id IS NULL AND work_key IS NULL
                AND operation IS NULL AND actor IS NULL AND tenant IS NULL
                AND security_version IS NULL AND target IS NULL AND target_version IS NULL
            END
    )
);

-- A work key is unique within its run; what a redelivery carries over is not new.
CREATE UNIQUE INDEX intent_run_key ON {s}intent (run_id, work_key) WHERE run_id IS NOT NULL AND predecessor IS NULL;
-- An intent has at most one successor.
CREATE UNIQUE INDEX intent_predecessor ON {s}intent (predecessor) WHERE predecessor IS NOT NULL;
-- What an erasure names.
CREATE INDEX intent_subject ON {s}intent (subject) WHERE subject IS NOT NULL;

CREATE FUNCTION {s}refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'consign: rows of % are never changed', TG_TABLE_NAME USING ERRCODE = 'integrity_constraint_violation';
END
$$;

CREATE TRIGGER intent_immutable BEFORE UPDATE ON {s}intent
    FOR EACH ROW EXECUTE FUNCTION {s}refuse_change();

-- The narrow mutable half of an intent, one to one by ref. There is no foreign
-- key: it would lock the intent's row at every insert, and after an erasure this
-- row stays alone as the tombstone (ref, digest, status, uncertain, when), so
-- that its ref can never be used again.
--
-- Columns that never change come first, because the write-ahead log of an update
-- within a page leaves out the equal head and tail of a row; of the others those
-- that change together lie together: a claim writes from program to status, a
-- start from revision to digest, a settle from lease_until to in_flight. No column
-- that a claim or a start sets is in any index, so both are heap-only; "terminal"
-- repeats the status only once it is final, for the same reason.
--
-- A batch rewrites all rows of a page in one transaction, and what it leaves behind
-- can be reused only when no other transaction may still look at it. So a page has
-- room for each row three times: as it was made, claimed and started. Drained on
-- two connections, three steps write 0.76 kB of log for each row with a fillfactor
-- of 30, 1.25 kB with 70, and the table ends up equally large, because what does
-- not fit is written to other pages, into every index again.
CREATE TABLE {s}delivery (
    ref          uuid PRIMARY KEY,
    created_at   timestamptz NOT NULL,
    -- the contract as copied when the intent was created, or at its first claim
    deadline     timestamptz,
    max_age_ms   bigint,
    lease_ms     integer,
    timeout_ms   integer,
    max_attempts integer,                             -- null: driven by hand, no limit
    gate_index   integer,
    profile      smallint NOT NULL,
    retry        smallint NOT NULL,                   -- 0 unclaimed, 1 process, 2 schedule
    idempotent   boolean NOT NULL DEFAULT false,
    route        text COLLATE "C" NOT NULL,
    gate_task    text COLLATE "C",                    -- null: waits for nobody
    -- the state
    program      text,
    owner        uuid,
    generation   bigint NOT NULL DEFAULT 0,
    lease_until  timestamptz,
    due_at       timestamptz,                         -- set while somebody may still claim it
    revision     bigint NOT NULL DEFAULT 0,
    updated_at   timestamptz NOT NULL,
    terminal     smallint,                            -- the status, once it is final
    status       smallint NOT NULL DEFAULT 0,
    attempts     integer NOT NULL DEFAULT 0,
    in_flight    boolean NOT NULL DEFAULT false,
    started_at   timestamptz,
    digest       bytea,
    crashes      integer NOT NULL DEFAULT 0,
    uncertain    boolean NOT NULL DEFAULT false,
    review_at    timestamptz,                         -- from when on a person is asked to look
    erased_at    timestamptz,
    code         text,
    last_error   text,
    CONSTRAINT delivery_state CHECK (
        profile IN (1, 2) AND retry IN (0, 1, 2) AND status BETWEEN 0 AND 6
        AND terminal IS NOT DISTINCT FROM CASE WHEN status >= 3 THEN status END
        AND generation >= 0 AND revision >= 0 AND crashes >= 0 AND attempts >= 0
        AND (max_attempts IS NULL OR attempts <= max_attempts)
        AND (digest IS NULL OR octet_length(digest) = 32)
        AND (profile = 2 OR retry = 2)
        AND (retry = 0) = (lease_ms IS NULL) AND (retry = 0) = (timeout_ms IS NULL)
        AND (owner IS NULL OR status > 0)
        AND (lease_until IS NOT NULL) = (status IN (1, 2) AND owner IS NOT NULL)
        AND (status <> 1 OR owner IS NOT NULL OR erased_at IS NOT NULL)
        AND (due_at IS NOT NULL) = (erased_at IS NULL AND (status < 2 OR status = 2 AND retry = 2))
        AND (erased_at IS NULL OR owner IS NULL AND review_at IS NULL AND last_error IS NULL AND gate_task IS NULL)
        AND (NOT in_flight OR status = 2)
        AND (status <> 2 OR in_flight OR retry = 1 OR erased_at IS NOT NULL)
        AND NOT (uncertain AND status IN (3, 5))
        AND CASE profile WHEN 1 THEN status <> 4 ELSE status NOT IN (5, 6) END
        AND (code IS NULL OR code IN (
            'RECORD_CHANGED', 'REQUEST_CHANGED', 'POST_EFFECT_CALLBACK_FAILED', 'AUTHORITY_REVOKED',
            'DELIVERY_NOT_PERMITTED', 'TARGET_UNAVAILABLE', 'CANCELLED_BY_HANDLER', 'CANCELLED_BY_OPERATOR',
            'REQUEST_INVALID', 'INPUT_UNREADABLE', 'EFFECT_NOT_CALLED', 'HANDLER_MISSING', 'HANDLER_CHANGED',
            'CHANNEL_MISSING', 'OUTCOME_UNKNOWN', 'REJECTED', 'DEADLINE_EXPIRED', 'ATTEMPTS_EXHAUSTED', 'POISONED',
            'INTERRUPTED'))
    )
) WITH (fillfactor = 30);

-- The one due index. Neither claim nor start touches it.
CREATE INDEX delivery_due ON {s}delivery (route, due_at, ref) WHERE due_at IS NOT NULL;
-- Lower indexes of a task that may still stand before a higher one.
CREATE INDEX delivery_gate ON {s}delivery (gate_task, gate_index) WHERE gate_task IS NOT NULL AND terminal IS NULL;
-- Ended deliveries by age, for retention, lists and counts. The profile leads it,
-- so that pruning one profile does not read through the other.
CREATE INDEX delivery_terminal ON {s}delivery (profile, terminal, created_at, ref) WHERE terminal IS NOT NULL;
-- What waits for a person, oldest first; a started process-owned message is in it
-- from its start, dated at the end of its lease.
CREATE INDEX delivery_review ON {s}delivery (review_at, ref) WHERE review_at IS NOT NULL;

-- Attempts that were not a plain success, and what late owners saw.
CREATE TABLE {s}attempt (
    ref         uuid NOT NULL,
    generation  bigint NOT NULL,
    number      integer NOT NULL,
    late        boolean NOT NULL DEFAULT false,       -- appended after the claim was lost
    outcome     smallint NOT NULL,
    http_status integer,
    wait_ms     bigint,
    started_at  timestamptz,
    at          timestamptz NOT NULL,
    code        text,
    error       text,
    proof       bytea,                                -- what a receiver signed
    PRIMARY KEY (ref, generation, number, late),
    CONSTRAINT attempt_shape CHECK (outcome BETWEEN 1 AND 6 AND generation > 0 AND number > 0)
);

-- Findings of people about intents in review. Append-only; a wrong one is
-- superseded by another.
CREATE TABLE {s}resolution (
    id          uuid PRIMARY KEY,
    ref         uuid NOT NULL,
    at          timestamptz NOT NULL,
    outcome     smallint NOT NULL,                    -- 1 delivered, 2 not delivered, 3 abandoned
    source      smallint NOT NULL DEFAULT 1,          -- 1 person, 2 late evidence, 3 proof
    supersedes  uuid UNIQUE,
    made_by     text NOT NULL,
    evidence    text,                                 -- null once erased
    CONSTRAINT resolution_shape CHECK (outcome IN (1, 2, 3) AND source IN (1, 2, 3))
);
CREATE INDEX resolution_ref ON {s}resolution (ref, at);

-- One row for every admitted operation execution.
CREATE TABLE {s}run (
    id               uuid PRIMARY KEY,
    created_at       timestamptz NOT NULL,
    sealed_at        timestamptz,
    approval_id      uuid UNIQUE,                     -- an approval is consumed at most once
    operation        text NOT NULL,
    actor            text NOT NULL,
    tenant           text NOT NULL,
    security_version text,
    target           text,
    target_version   text,
    subject          text COLLATE "C",
    input_digest     bytea,
    receipt          text,
    work             bytea,                           -- refs of its work, 16 bytes each, in the order of the receipt
    CONSTRAINT run_shape CHECK (
        octet_length(receipt) <= 4096
        AND octet_length(work) % 16 = 0
        AND (sealed_at IS NULL OR security_version IS NOT NULL AND target IS NOT NULL AND target_version IS NOT NULL)
    )
);
CREATE INDEX run_subject ON {s}run (subject) WHERE subject IS NOT NULL;

-- What a person is asked to sign off before an operation runs. An erasure takes
-- target, subject, input and the two texts, and ends the time of what is not
-- consumed: without its target it would fit another run.
CREATE TABLE {s}approval (
    id              uuid PRIMARY KEY,
    created_at      timestamptz NOT NULL,
    expires_at      timestamptz NOT NULL,
    operation       text NOT NULL,
    actor           text NOT NULL,
    tenant          text COLLATE "C" NOT NULL,
    target          text,                             -- null: the operation creates it
    subject         text COLLATE "C",
    input           text,                             -- canonical JSON, what a person is shown
    input_digest    bytea NOT NULL,
    proposer        text NOT NULL,
    reason          text,                             -- why it is proposed
    other_confirmer boolean NOT NULL DEFAULT false,   -- the proposer may not confirm it
    status          smallint NOT NULL DEFAULT 0,      -- 0 open, 1 confirmed, 2 dismissed, 3 consumed
    decided_by      text,
    decided_at      timestamptz,
    decision        text,                             -- why it was confirmed or dismissed
    run_id          uuid UNIQUE,
    consumed_at     timestamptz,
    CONSTRAINT approval_shape CHECK (
        status IN (0, 1, 2, 3)
        AND octet_length(input_digest) = 32
        AND octet_length(input) <= 16384
        AND NOT (other_confirmer AND status IN (1, 3) AND decided_by = proposer)
        AND (status = 0) = (decided_at IS NULL) AND (decided_at IS NULL) = (decided_by IS NULL)
        AND (status = 3) = (consumed_at IS NOT NULL) AND (status = 3) = (run_id IS NOT NULL)
    )
);
-- Those that wait for a person, the most urgent first. What has expired lies before
-- the place where a list begins.
CREATE INDEX approval_open ON {s}approval (expires_at, id) WHERE status = 0;
CREATE INDEX approval_subject ON {s}approval (subject) WHERE subject IS NOT NULL;

-- Who did what, when, why, with what before and after. Append-only.
CREATE TABLE {s}audit (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at          timestamptz NOT NULL,
    made_by     text NOT NULL,
    action      text NOT NULL,
    ref         uuid,
    run_id      uuid,
    approval_id uuid,
    reason      text,
    before      text,
    after       text
);
CREATE INDEX audit_ref ON {s}audit (ref, id) WHERE ref IS NOT NULL;
CREATE INDEX audit_run ON {s}audit (run_id) WHERE run_id IS NOT NULL;
CREATE INDEX audit_approval ON {s}audit (approval_id) WHERE approval_id IS NOT NULL;

CREATE TRIGGER audit_append_only BEFORE UPDATE ON {s}audit
    FOR EACH ROW EXECUTE FUNCTION {s}refuse_change();

-- What live programs serve, so that no program stops what another one serves.
CREATE TABLE {s}program (
    id           uuid PRIMARY KEY,
    name         text NOT NULL,
    started_at   timestamptz NOT NULL,
    heartbeat_at timestamptz NOT NULL
);
CREATE TABLE {s}program_route (
    program_id   uuid NOT NULL REFERENCES {s}program ON DELETE CASCADE,
    profile      smallint NOT NULL,
    kind         text COLLATE "C" NOT NULL,
    version      text NOT NULL DEFAULT '',            -- '' of a channel
    fingerprint  bytea,
    upgrades     boolean NOT NULL DEFAULT false,      -- serves this older version through an upgrader
    -- the contract that is copied onto what is created anew for it
    retry        smallint NOT NULL DEFAULT 0,         -- 0: driven by hand
    idempotent   boolean NOT NULL DEFAULT false,
    max_attempts integer,
    lease_ms     integer,
    timeout_ms   integer,
    max_age_ms   bigint,
    PRIMARY KEY (program_id, profile, kind, version)
);

-- Kinds and channels that nobody claims until they are resumed.
CREATE TABLE {s}pause (
    profile smallint NOT NULL,
    kind    text COLLATE "C" NOT NULL,
    at      timestamptz NOT NULL,
    made_by text NOT NULL,
    reason  text,
    PRIMARY KEY (profile, kind)
);

-- Single values: the deployment name, counts of what retention removed.
CREATE TABLE {s}setting (
    name  text PRIMARY KEY,
    value text NOT NULL
);

-- The numbers above in words, for people with a SQL prompt.
CREATE VIEW {s}delivery_words AS
SELECT d.ref,
       CASE d.profile WHEN 1 THEN 'work' ELSE 'message' END AS profile,
       i.kind,
       CASE d.status
           WHEN 0 THEN 'pending' WHEN 1 THEN 'leased' WHEN 2 THEN 'delivering' WHEN 3 THEN 'succeeded'
           WHEN 4 THEN 'failed' WHEN 5 THEN 'cancelled' ELSE 'reconciliation_required' END AS status,
       d.code, d.uncertain, d.attempts, d.generation, d.due_at, d.lease_until, d.created_at, d.updated_at,
       d.deadline, d.program, d.last_error, d.erased_at
FROM {s}delivery d LEFT JOIN {s}intent i ON i.ref = d.ref;
