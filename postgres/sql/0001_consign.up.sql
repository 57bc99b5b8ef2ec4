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
    delivery_key     uuid,                            -- what a redelivery repeats; null: the key is the ref
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
    trace            text
);

-- A work key is unique within its run, and no index is needed for that: the ref of
-- work is made from its run and its key, so a second one would have the same ref.
-- An intent has at most one successor.
CREATE UNIQUE INDEX intent_predecessor ON {s}intent (predecessor) WHERE predecessor IS NOT NULL;
-- What an erasure names.
CREATE INDEX intent_subject ON {s}intent (subject) WHERE subject IS NOT NULL;

-- What every row of the two tables must be is held by a trigger for each statement, not
-- by a CHECK: PostgreSQL reads the text of a CHECK anew for every statement, and for
-- these two that was 240 of the 290 microseconds that one enqueue cost the server. For
-- batches both cost the same.
--
-- For a single row, most of what is left is to set the rules up, so what nearly all
-- new rows look like is asked for first. That must never be true of a row that breaks
-- the rules; a test holds it.
CREATE FUNCTION {s}intent_fits() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS ( -- anything but a first message
        SELECT FROM fresh
        WHERE NOT (
            profile = 2 AND link = 0 AND address IS NOT NULL
            AND num_nonnulls(delivery_key, predecessor, version, fingerprint, run_id, work_key, operation, actor, tenant, security_version,
                             target, target_version) = 0
            AND octet_length(kind) BETWEEN 1 AND 128
            AND octet_length(payload_digest) = 32
        )
    ) THEN
        RETURN NULL;
    END IF;
    IF EXISTS (
        SELECT FROM fresh
        WHERE NOT (
            profile IN (1, 2)
            AND octet_length(kind) BETWEEN 1 AND 128
            AND octet_length(payload_digest) = 32
            AND link IN (0, 1, 2)
            AND (link = 0) = (predecessor IS NULL)
            AND (link = 1) = (delivery_key IS NOT NULL)
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
    ) THEN
        RAISE EXCEPTION 'consign: a row of % breaks its rules', TG_TABLE_NAME
            USING ERRCODE = 'check_violation', CONSTRAINT = 'intent_shape', TABLE = TG_TABLE_NAME;
    END IF;
    RETURN NULL;
END
$$;

CREATE TRIGGER intent_shape AFTER INSERT ON {s}intent
    REFERENCING NEW TABLE AS fresh FOR EACH STATEMENT EXECUTE FUNCTION {s}intent_fits();

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
-- The write-ahead log of an update within a page leaves out the equal head and tail of
-- a row. So columns that never change come first, those that are seldom set last, and
-- between them those that change together lie together: a claim writes from program to
-- status, a start from review_at to digest, an end from lease_until to terminal. They are
-- in an order that needs little padding. No column that a claim or a start sets is in any
-- index, so both are heap-only; "terminal" repeats the status only once it is final, for
-- the same reason.
--
-- A batch rewrites all rows of a page in one transaction, and what it leaves behind
-- can be reused only when no other transaction may still look at it. So a page has
-- room for each row three times: as it was made, claimed and started. Drained on
-- two connections, three steps write 0.75 kB of log for each row with a fillfactor
-- of 26, 0.79 kB with 30, 1.24 kB with 70, and the table ends up equally large, because
-- what does not fit is written to other pages, into every index again.
CREATE TABLE {s}delivery (
    ref          uuid PRIMARY KEY,
    created_at   timestamptz NOT NULL,
    profile      smallint NOT NULL,
    retry        smallint NOT NULL,                   -- 0 unclaimed, 1 process, 2 schedule
    crashes      integer NOT NULL DEFAULT 0,
    -- the contract as copied when the intent was created, or at its first claim
    deadline     timestamptz,
    max_age_ms   bigint,
    lease_ms     integer,
    timeout_ms   integer,
    max_attempts integer,                             -- null: driven by hand, no limit
    gate_index   integer,
    idempotent   boolean NOT NULL DEFAULT false,
    route        text COLLATE "C" NOT NULL,
    gate_task    text COLLATE "C",                    -- null: waits for nobody
    -- the state
    program      text,
    owner        uuid,
    generation   bigint NOT NULL DEFAULT 0,
    lease_until  timestamptz,
    due_at       timestamptz,                         -- set while somebody may still claim it
    review_at    timestamptz,                         -- from when on a person is asked to look
    revision     bigint NOT NULL DEFAULT 0,
    updated_at   timestamptz NOT NULL,
    started_at   timestamptz,
    status       smallint NOT NULL DEFAULT 0,
    in_flight    boolean NOT NULL DEFAULT false,
    uncertain    boolean NOT NULL DEFAULT false,
    attempts     integer NOT NULL DEFAULT 0,
    terminal     smallint,                            -- the status, once it is final
    digest       bytea,
    code         text,
    last_error   text,
    erased_at    timestamptz
) WITH (fillfactor = 26);

CREATE FUNCTION {s}delivery_fits() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        IF NOT EXISTS ( -- anything but a delivery that nobody has claimed
            SELECT FROM fresh
            WHERE NOT (
                status = 0 AND due_at IS NOT NULL AND NOT in_flight
                AND num_nonnulls(terminal, owner, lease_until, digest, code, erased_at) = 0
                AND (profile = 2 AND retry BETWEEN 0 AND 2 OR profile = 1 AND retry = 2)
                AND num_nonnulls(lease_ms, timeout_ms) = CASE retry WHEN 0 THEN 0 ELSE 2 END
                AND generation = 0 AND revision = 0 AND crashes = 0 AND attempts = 0
                AND COALESCE(max_attempts, 0) >= 0
            )
        ) THEN
            RETURN NULL;
        END IF;
    END IF;
    IF EXISTS (
        SELECT FROM fresh
        WHERE NOT (
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
    ) THEN
        RAISE EXCEPTION 'consign: a row of % breaks its rules', TG_TABLE_NAME
            USING ERRCODE = 'check_violation', CONSTRAINT = 'delivery_state', TABLE = TG_TABLE_NAME;
    END IF;
    RETURN NULL;
END
$$;

CREATE TRIGGER delivery_new_state AFTER INSERT ON {s}delivery
    REFERENCING NEW TABLE AS fresh FOR EACH STATEMENT EXECUTE FUNCTION {s}delivery_fits();
CREATE TRIGGER delivery_state AFTER UPDATE ON {s}delivery
    REFERENCING NEW TABLE AS fresh FOR EACH STATEMENT EXECUTE FUNCTION {s}delivery_fits();

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
    proof       text,                                 -- what a receiver signed
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

-- Enqueue from any language: the contract is in docs/sql.md, and everything below
-- serves it. The functions are in PL/pgSQL because nothing else is in every
-- database. What enqueue_message calls runs under its settings and has none itself.

-- One number of a JSON text as RFC 8785 section 3.2.2.3 spells it: a double by the
-- rules of ECMAScript. Integers are compared by their digits, as a detour through a
-- double would round what has to be refused.
CREATE FUNCTION {s}canonical_number(token text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    part   text[];
    sign   text;
    digits text;
    point  bigint; -- the magnitude is 0.digits * 10^point
    zeros  bigint;
    f      double precision;
    shorter text;
BEGIN
    IF token ~ '^-?[0-9]+$' THEN
        digits := ltrim(token, '-');
        IF length(digits) > 16 OR digits::bigint > 9007199254740991 THEN
            RAISE EXCEPTION 'has an integer larger than 2^53-1 in magnitude: send it as a string' USING ERRCODE = '22023';
        END IF;
        RETURN CASE digits WHEN '0' THEN '0' ELSE token END;
    END IF;

    part := regexp_match(token, '^(-?)([0-9]+)(?:\.([0-9]+))?(?:[eE]([+-]?)0*([0-9]*))?$');
    sign := part[1];
    digits := ltrim(part[2] || COALESCE(part[3], ''), '0');
    zeros := length(part[2]) + length(COALESCE(part[3], '')) - length(digits);
    point := length(part[2]) - zeros
             + CASE part[4] WHEN '-' THEN -1 ELSE 1 END * left('0' || COALESCE(part[5], ''), 12)::bigint;
    digits := rtrim(digits, '0');
    IF digits = '' OR point < -330 THEN
        RETURN '0';
    ELSIF point > 310 THEN
        RAISE EXCEPTION 'has a number that is not finite' USING ERRCODE = '22023';
    END IF;
    -- No double and no middle of two has more than 767 digits, so what follows 800
    -- matters only by being there.
    digits := left(digits, 800) || CASE WHEN length(digits) > 800 THEN '1' ELSE '' END;
    BEGIN
        f := ('0.' || digits || 'e' || point)::double precision;
    EXCEPTION WHEN numeric_value_out_of_range THEN
        IF point < 0 THEN
            RETURN '0'; -- PostgreSQL's name for what is too small, too
        END IF;
        RAISE EXCEPTION 'has a number that is not finite' USING ERRCODE = '22023';
    END;

    part := regexp_match(f::text, '^([0-9]+)(?:\.([0-9]+))?(?:e([+-][0-9]+))?$');
    digits := ltrim(part[1] || COALESCE(part[2], ''), '0');
    zeros := length(part[1]) + length(COALESCE(part[2], '')) - length(digits);
    point := length(part[1]) - zeros + COALESCE(part[3], '0')::bigint;
    digits := rtrim(digits, '0');

    -- PostgreSQL spells a double by digits from within the interval that reads back
    -- as it. ECMAScript takes the ends of the interval too, as a reader rounds them
    -- to even: 1e23 is one. Only large whole numbers are ever that short.
    IF length(digits) > 15 AND point BETWEEN 22 AND 42 THEN
        SELECT c.spelled INTO shorter
        FROM generate_series(15, length(digits) - 1) AS n
        CROSS JOIN LATERAL (VALUES (left(digits, n)::numeric), (left(digits, n)::numeric + 1)) AS v (front)
        CROSS JOIN LATERAL (SELECT v.front || repeat('0', point::integer - n)) AS c (spelled)
        WHERE c.spelled::double precision = f
        ORDER BY n, abs(c.spelled::numeric - rpad(digits, point::integer, '0')::numeric)
        LIMIT 1;
        IF FOUND THEN
            point := length(shorter);
            digits := rtrim(shorter, '0');
        END IF;
    END IF;

    zeros := point - length(digits);
    IF zeros >= 0 AND point <= 21 THEN
        IF f > 9007199254740991 THEN
            RAISE EXCEPTION 'has an integer larger than 2^53-1 in magnitude: send it as a string' USING ERRCODE = '22023';
        END IF;
        RETURN sign || digits || repeat('0', zeros::integer);
    ELSIF point BETWEEN 1 AND 21 THEN
        RETURN sign || left(digits, point::integer) || '.' || substr(digits, point::integer + 1);
    ELSIF point BETWEEN -5 AND 0 THEN
        RETURN sign || '0.' || repeat('0', -point::integer) || digits;
    END IF;
    RETURN sign || left(digits, 1) || CASE WHEN length(digits) > 1 THEN '.' || substr(digits, 2) ELSE '' END
           || CASE WHEN point > 0 THEN 'e+' ELSE 'e-' END || abs(point - 1);
END
$$;

-- A JSON value in the canonical form of RFC 8785. The type json, unlike jsonb, keeps
-- what was written: equal names, digits of numbers. Members are put in order by the
-- UTF-16 form of their names: that is the order of the bytes in UTF-8, if those that
-- begin U+E000 to U+FFFF (238, 239) come behind those of the planes above (240 to 244).
CREATE FUNCTION {s}canonical_json(value json, depth integer) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    form  text;
    twice boolean;
BEGIN
    CASE json_typeof(value)
    WHEN 'object', 'array' THEN
        IF depth > 8 THEN
            RAISE EXCEPTION 'is nested deeper than 8 levels' USING ERRCODE = '22023';
        END IF;
    WHEN 'string' THEN
        RETURN to_json(value #>> '{}')::text;
    WHEN 'number' THEN
        RETURN {s}canonical_number(value::text);
    ELSE
        RETURN value::text;
    END CASE;
    IF json_typeof(value) = 'array' THEN
        SELECT '[' || COALESCE(string_agg({s}canonical_json(e.value, depth + 1), ',' ORDER BY e.place), '') || ']'
        INTO form
        FROM json_array_elements(value) WITH ORDINALITY AS e (value, place);
        RETURN form;
    END IF;
    SELECT '{' || COALESCE(string_agg(to_json(m.key)::text || ':' || {s}canonical_json(m.value, depth + 1), ',' ORDER BY
               convert_to(translate(convert_from(convert_to(m.key, 'UTF8'), 'LATIN1'), chr(238) || chr(239), chr(245) || chr(246)), 'LATIN1')
           ), '') || '}',
           count(*) > count(DISTINCT m.key COLLATE "C")
    INTO form, twice
    FROM json_each(value) AS m (key, value);
    IF twice THEN
        RAISE EXCEPTION 'has two members of one name' USING ERRCODE = '22023';
    END IF;
    RETURN form;
END
$$;

-- Writes one message in the caller's transaction, as the Go call Enqueue does for a
-- channel that its program does not know: the contract of the channel is copied by
-- the program that claims it first. The first argument is the version of this
-- function's own contract.
--
-- It runs with its owner's rights, so that an application needs no right to any
-- table: EXECUTE on it and USAGE of the schema are all. Hence nothing is found by
-- the caller's search_path. The other settings are for how these functions are read,
-- for how doubles are spelled, and for looking up a repeated id by its key whatever
-- the statistics say.
CREATE FUNCTION {s}enqueue_message(
    contract   integer,
    channel    text,
    payload    json,
    recipient  text DEFAULT '',
    id         uuid DEFAULT NULL,
    task       text DEFAULT NULL,
    task_index integer DEFAULT 0,
    subject    text DEFAULT NULL,
    not_before timestamptz DEFAULT NULL
) RETURNS uuid
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET standard_conforming_strings = on
SET extra_float_digits = 1
SET enable_seqscan = off
AS $$
DECLARE
    -- In the collation of the tables, whatever the caller's texts are in.
    its_channel   text COLLATE "C" := COALESCE(channel, '');
    its_recipient text COLLATE "C" := COALESCE(recipient, '');
    its_task      text COLLATE "C" := NULLIF(task, '');
    its_subject   text COLLATE "C" := NULLIF(subject, '');
    its_index     integer := COALESCE(task_index, 0);
    its_payload   text COLLATE "C";
    its_ref       uuid := id;
    at            timestamptz := clock_timestamp();
    faults        text[] := '{}';
    field         record;
BEGIN
    IF contract IS DISTINCT FROM 1 THEN
        RAISE EXCEPTION 'consign: enqueue: contract % is not known here, 1 is', COALESCE(contract::text, 'null')
            USING ERRCODE = 'invalid_parameter_value';
    ELSIF getdatabaseencoding() <> 'UTF8' THEN
        RAISE EXCEPTION 'consign: enqueue: the database is in %, it must be in UTF8', getdatabaseencoding()
            USING ERRCODE = 'feature_not_supported';
    END IF;

    IF octet_length(its_channel) NOT BETWEEN 1 AND 128 THEN
        faults := faults || format('channel %s bytes, limit 1 to 128', octet_length(its_channel));
    ELSIF its_channel ~ '[^ -~]' THEN
        faults := faults || 'channel is not printable ASCII'::text;
    END IF;
    FOR field IN
        VALUES ('recipient', its_recipient, 2048), ('task', its_task, 128), ('subject', its_subject, 128)
    LOOP
        IF octet_length(field.column2) > field.column3 THEN
            faults := faults || format('%s %s bytes, limit 0 to %s', field.column1, octet_length(field.column2), field.column3);
        ELSIF field.column2 ~ '[\u0001-\u001f\u007f-\u009f]' THEN
            faults := faults || format('%s contains a control character', field.column1);
        END IF;
    END LOOP;
    IF its_index < 0 THEN
        faults := faults || format('task_index %s, limit 0 to 2147483647', its_index);
    END IF;
    IF its_ref = '00000000-0000-0000-0000-000000000000' THEN
        faults := faults || 'id is the zero UUID, which names nothing'::text;
    END IF;
    IF NOT (isfinite(not_before) AND date_part('year', not_before AT TIME ZONE 'UTC') BETWEEN 1970 AND 9999) THEN
        faults := faults || 'not_before year, limit 1970 to 9999'::text;
    END IF;
    BEGIN
        its_payload := {s}canonical_json(payload, 1);
        IF COALESCE(left(its_payload, 1), '') <> '{' THEN
            faults := faults || 'payload must be an object'::text;
        ELSIF octet_length(its_payload) > 16384 THEN
            faults := faults || 'payload canonical form larger than 16384 bytes'::text;
        END IF;
    EXCEPTION -- PostgreSQL's own messages quote what they are about
        WHEN invalid_parameter_value THEN
            faults := faults || ('payload ' || SQLERRM);
        WHEN untranslatable_character THEN
            faults := faults || 'payload contains U+0000'::text;
        WHEN invalid_text_representation THEN
            faults := faults || 'payload contains a lone surrogate'::text;
    END;
    IF cardinality(faults) > 0 THEN
        RAISE EXCEPTION 'consign: enqueue: %', array_to_string(faults, '; ') USING ERRCODE = 'invalid_parameter_value';
    END IF;

    IF its_ref IS NULL THEN -- UUIDv7: a random one with 48 bits of milliseconds and the other version
        its_ref := encode(set_bit(set_bit(overlay(uuid_send(gen_random_uuid())
            PLACING substring(int8send(floor(date_part('epoch', at) * 1000)::bigint) FROM 3) FROM 1), 52, 1), 53, 1), 'hex')::uuid;
    END IF;
    -- The delivery goes first: it is what is left of an erased intent. One that
    -- another transaction is writing is waited for.
    INSERT INTO {s}delivery (ref, created_at, profile, retry, route, gate_task, gate_index, due_at, updated_at)
    VALUES (its_ref, at, 2, 0, 'm:' || its_channel, its_task, CASE WHEN its_task IS NOT NULL THEN its_index END,
            GREATEST(at, not_before), at)
    ON CONFLICT (ref) DO NOTHING;
    IF FOUND THEN
        INSERT INTO {s}intent (ref, created_at, profile, task_index, kind, payload_digest, payload, address, task,
                               subject)
        VALUES (its_ref, at, 2, its_index, its_channel, sha256(convert_to(its_payload, 'UTF8')), its_payload,
                its_recipient, its_task, its_subject);
    ELSIF NOT EXISTS (
        SELECT FROM {s}intent i
        WHERE i.ref = its_ref AND i.profile = 2 AND i.kind = its_channel AND i.address = its_recipient
          AND i.payload = its_payload AND i.task_index = its_index
          AND i.task IS NOT DISTINCT FROM its_task AND i.subject IS NOT DISTINCT FROM its_subject
    ) THEN
        RAISE EXCEPTION 'consign: enqueue: the id exists with other content' USING ERRCODE = 'unique_violation';
    END IF;
    RETURN its_ref;
END
$$;

-- Hints every program that listens, as the Go call Wake does. Every transaction that
-- notifies holds a lock of the whole database while it commits, so that of the
-- intent must not be one.
CREATE FUNCTION {s}wake() RETURNS void LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    schema text := (parse_ident('{s}wake'))[1];
BEGIN
    IF pg_current_xact_id_if_assigned() IS NOT NULL THEN
        RAISE EXCEPTION 'consign: wake: this transaction has written; call it after the commit, in one of its own'
            USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    PERFORM pg_notify(CASE
        WHEN octet_length('consign:' || schema) <= 63 THEN 'consign:' || schema
        ELSE 'consign#' || encode(substring(sha256(convert_to(schema, 'UTF8')) FOR 16), 'hex')
    END, '');
END
$$;

REVOKE ALL ON FUNCTION {s}enqueue_message(integer, text, json, text, uuid, text, integer, text, timestamptz),
    {s}wake(), {s}canonical_json(json, integer), {s}canonical_number(text) FROM PUBLIC;
