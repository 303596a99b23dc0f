-- The chain of hashes; see internal/journal/chain.go. Appends of earlier releases have no hash.
ALTER TABLE appends ADD COLUMN hash BLOB NOT NULL DEFAULT x'';

CREATE TABLE tombstones (
	n    INTEGER PRIMARY KEY,             -- in the order in which runs were removed
	body BLOB    NOT NULL,                -- a JSON object
	hash BLOB    NOT NULL
) STRICT;
