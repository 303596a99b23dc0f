-- Appends may be in the short form (journal.EncodeShort), which earlier releases cannot read.
SELECT 1;
