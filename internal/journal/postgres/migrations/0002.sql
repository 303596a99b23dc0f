-- The chain of hashes; see internal/journal/chain.go. Appends of earlier releases have no hash.
ALTER TABLE @.appends ADD COLUMN hash bytea NOT NULL DEFAULT '';

CREATE TABLE @.tombstones (
	n    bigint PRIMARY KEY,              -- in the order in which runs were removed
	body bytea NOT NULL,                  -- a JSON object
	hash bytea NOT NULL
);
