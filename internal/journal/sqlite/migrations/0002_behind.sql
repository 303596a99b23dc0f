-- A run's row may be a little behind its newest append (see newest.go); what it
-- would say is in the append then.
ALTER TABLE appends ADD COLUMN at INTEGER NOT NULL DEFAULT 0; -- of its last event
