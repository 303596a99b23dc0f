CREATE TABLE runs (
	n          INTEGER PRIMARY KEY,       -- in the order in which they began
	id         TEXT    NOT NULL UNIQUE,
	root       TEXT    NOT NULL,          -- of a child run; else empty
	parent     TEXT    NOT NULL,
	name       TEXT    NOT NULL,
	format     TEXT    NOT NULL,
	definition TEXT    NOT NULL,
	started    INTEGER NOT NULL,
	updated    INTEGER NOT NULL,
	seq        INTEGER NOT NULL,
	head       INTEGER NOT NULL,          -- the run's newest append; 0 of a child run
	fence      INTEGER NOT NULL,
	owner      TEXT    NOT NULL,
	status     TEXT    NOT NULL,
	outcome    TEXT    NOT NULL,
	wake       INTEGER NOT NULL,
	waiting    TEXT    NOT NULL
) STRICT;

CREATE INDEX runs_unfinished ON runs (n) WHERE status <> 'finished';
CREATE INDEX runs_by_status ON runs (status) WHERE status <> 'finished';
CREATE INDEX runs_by_wake ON runs (wake) WHERE wake > 0 AND root = '' AND status <> 'finished';
CREATE INDEX runs_by_root ON runs (root) WHERE root <> '';

CREATE TABLE appends (
	pos  INTEGER PRIMARY KEY,             -- in the order in which they were committed
	run  INTEGER NOT NULL,                -- runs.n; 0 of the emptied newest row
	prev INTEGER NOT NULL,                -- the run's append before this; 0 of its first
	seq  INTEGER NOT NULL,                -- of its last event
	body BLOB    NOT NULL                 -- events, one JSON object per line
) STRICT;

CREATE TABLE inbox (
	id   INTEGER PRIMARY KEY AUTOINCREMENT,
	run  INTEGER NOT NULL,
	kind TEXT    NOT NULL,
	data BLOB    NOT NULL,
	at   INTEGER NOT NULL
) STRICT;

CREATE INDEX inbox_by_run ON inbox (run);

CREATE TABLE blobs (
	n    INTEGER PRIMARY KEY,
	hash TEXT    NOT NULL UNIQUE,
	data BLOB    NOT NULL
) STRICT;

CREATE TABLE uses (
	run  INTEGER NOT NULL,
	blob INTEGER NOT NULL,
	PRIMARY KEY (run, blob)
) STRICT, WITHOUT ROWID;

CREATE INDEX uses_by_blob ON uses (blob);

CREATE TABLE snapshots (
	run   INTEGER PRIMARY KEY,
	seq   INTEGER NOT NULL,
	state BLOB    NOT NULL
) STRICT;
