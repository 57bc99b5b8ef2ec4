-- Delivery keys that were executed, each with the answer it was given. A row is
-- written in the transaction that did the work, so there is none for work that was
-- undone. Times are microseconds since 1970.
CREATE TABLE IF NOT EXISTS {t} (
    source       TEXT    NOT NULL,                   -- the sender, within which a key is unique
    delivery_key TEXT    NOT NULL,
    digest       BLOB    NOT NULL,                   -- SHA-256 of the body
    status       INTEGER NOT NULL,
    content_type TEXT    NOT NULL,
    body         BLOB    NOT NULL,
    received_at  INTEGER NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER)),
    PRIMARY KEY (source, delivery_key),
    CHECK (length(digest) = 32 AND status BETWEEN 200 AND 299)
) WITHOUT ROWID
