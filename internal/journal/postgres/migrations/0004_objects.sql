-- Large values are objects in a bucket. Their names start with the id of the journal: several journals can share a bucket.
ALTER TABLE @.journal ADD COLUMN id uuid NOT NULL DEFAULT gen_random_uuid();
ALTER TABLE @.blobs ADD COLUMN object text COLLATE "C" NOT NULL DEFAULT ''; -- its name; the data is empty

-- Objects that no blob refers to: they are about to be, because they are being uploaded, or were removed.
CREATE TABLE @.garbage (
	object  text COLLATE "C" PRIMARY KEY,
	removed boolean NOT NULL,
	added   timestamptz NOT NULL DEFAULT now()
);
