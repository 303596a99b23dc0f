-- Release 0.1.0 did not mark the runs that it imported. Only appends of imported runs have negative positions.
INSERT OR IGNORE INTO registers (key, data)
SELECT CAST('imported/' || id AS BLOB), CAST('{}' AS BLOB) FROM runs
WHERE root = '' AND n IN (SELECT run FROM appends WHERE pos < 0);
