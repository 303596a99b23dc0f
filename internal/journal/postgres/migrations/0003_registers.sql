CREATE SEQUENCE @.register_versions;
CREATE TABLE @.registers (
	key     bytea  PRIMARY KEY,
	version bigint NOT NULL DEFAULT nextval('@.register_versions'), -- never reused
	data    bytea  NOT NULL
);
