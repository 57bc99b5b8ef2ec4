-- Delivery keys that were executed, each with the answer it was given. A row is
-- written in the transaction that did the work, so there is none for work that was
-- undone.
CREATE TABLE IF NOT EXISTS {t} (
    source       text        NOT NULL,               -- the sender, within which a key is unique
    delivery_key text        NOT NULL,
    digest       bytea       NOT NULL,               -- SHA-256 of the body
    status       integer     NOT NULL,
    content_type text        NOT NULL,
    body         bytea       NOT NULL,
    received_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (source, delivery_key),
    CHECK (octet_length(digest) = 32 AND status BETWEEN 200 AND 299)
)
