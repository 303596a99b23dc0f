-- "@" stands for the journal's schema. Migrations only add: processes of the
-- previous release may work on the same journal while this one is applied.

-- One row. Positions are era + (transaction id << 10) + index in the group. A
-- dump that is restored into another cluster has smaller transaction ids, so
-- opening it raises the era above every position.
CREATE TABLE @.journal (
	one     boolean PRIMARY KEY DEFAULT true CHECK (one),
	version integer NOT NULL,
	minimum integer NOT NULL,           -- the oldest release's version that may still use the journal
	era     bigint  NOT NULL DEFAULT 0,
	mark    bigint  NOT NULL DEFAULT 0  -- the highest position of a deleted append
);
INSERT INTO @.journal (version, minimum) VALUES (0, 1);

-- One row for each process that can own runs.
CREATE TABLE @.workers (
	id      text COLLATE "C" PRIMARY KEY,
	until   timestamptz NOT NULL,       -- end of the lease, in the database's time
	sealed  boolean NOT NULL DEFAULT false, -- the process may never append again
	driving boolean NOT NULL DEFAULT true,
	about   text    NOT NULL
) WITH (fillfactor = 50);

CREATE TABLE @.runs (
	n          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, -- in the order in which runs begin
	id         text COLLATE "C" NOT NULL UNIQUE,
	root       text COLLATE "C" NOT NULL, -- of a child run; otherwise empty
	parent     text COLLATE "C" NOT NULL,
	name       text COLLATE "C" NOT NULL,
	format     text COLLATE "C" NOT NULL,
	definition text COLLATE "C" NOT NULL,
	started    bigint NOT NULL,
	updated    bigint NOT NULL,           -- of a root run: as of the last change of this row
	seq        bigint NOT NULL,           -- of a root run: as of the last change of this row
	fence      bigint NOT NULL,
	owner      text COLLATE "C" NOT NULL,
	status     text COLLATE "C" NOT NULL,
	outcome    text COLLATE "C" NOT NULL,
	wake       bigint NOT NULL,
	waiting    text COLLATE "C" NOT NULL
) WITH (fillfactor = 50);
CREATE INDEX runs_unfinished ON @.runs (n) WHERE status <> 'finished';
CREATE INDEX runs_by_status ON @.runs (status, n) WHERE status <> 'finished';
CREATE INDEX runs_by_owner ON @.runs (owner, n) WHERE root = '' AND status = 'running';
CREATE INDEX runs_by_wake ON @.runs (wake, n) WHERE wake > 0 AND root = '' AND status <> 'finished';
CREATE INDEX runs_by_root ON @.runs (root, n) WHERE root <> '';

CREATE TABLE @.appends (
	run   bigint NOT NULL,                -- runs.n
	first bigint NOT NULL,                -- sequence number of the first event
	last  bigint NOT NULL,
	at    bigint NOT NULL,                -- time of the last event
	pos   bigint NOT NULL,
	token bigint NOT NULL,                -- of the group that the append was committed with
	body  bytea  NOT NULL,                -- events, one JSON object per line
	PRIMARY KEY (run, first)
);
CREATE UNIQUE INDEX appends_by_pos ON @.appends (pos);

CREATE TABLE @.inbox (
	id    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	run   bigint NOT NULL,
	token text COLLATE "C" NOT NULL UNIQUE, -- makes a repeated insert harmless
	kind  text COLLATE "C" NOT NULL,
	data  bytea  NOT NULL,
	at    bigint NOT NULL,
	added timestamptz NOT NULL DEFAULT now(),
	taken boolean NOT NULL DEFAULT false    -- kept for a while, for its token
);
CREATE INDEX inbox_by_run ON @.inbox (run, id) WHERE NOT taken;
CREATE INDEX inbox_taken ON @.inbox (added) WHERE taken;

-- Blobs are written before the appends that use them. A blob without a use
-- does not exist for readers, and is removed later.
CREATE TABLE @.blobs (
	n     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	hash  text COLLATE "C" NOT NULL UNIQUE,
	added timestamptz NOT NULL DEFAULT now(),
	data  bytea NOT NULL
);
CREATE TABLE @.uses (
	run  bigint NOT NULL,
	blob bigint NOT NULL REFERENCES @.blobs (n),
	PRIMARY KEY (run, blob)
);
CREATE INDEX uses_by_blob ON @.uses (blob);

CREATE TABLE @.snapshots (
	run   bigint PRIMARY KEY,
	seq   bigint NOT NULL,
	state bytea  NOT NULL
);

-- expect ends the transaction with an error code unless have = want: the
-- statements of a group are sent together, so the server has to compare.
CREATE FUNCTION @.expect(have bigint, want bigint, code text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	IF have <> want THEN
		RAISE EXCEPTION 'have %, want %', have, want USING ERRCODE = code;
	END IF;
END $$;
