//go:build linux

package postgres_test

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/journal/postgres"
	"github.com/espalier-run/espalier/internal/pgtest"
)

// grants returns the statements of the documentation that let a role use a schema, for another schema and role.
func grants(t testing.TB, schema, role string) string {
	t.Helper()
	text, err := os.ReadFile("../../../docs/postgres.md")
	if err != nil {
		t.Fatal(err)
	}
	_, after, found := strings.Cut(string(text), "```sql\n")
	block, _, closed := strings.Cut(after, "```")
	if !found || !closed || !strings.Contains(block, "GRANT USAGE ON SCHEMA espalier TO worker;") {
		t.Fatalf("docs/postgres.md has no statements that grant privileges:\n%s", block)
	}
	return strings.NewReplacer("SCHEMA espalier", "SCHEMA "+schema, "TO worker", "TO "+role).Replace(block)
}

// asRole returns the URL of a schema for a role with the documented privileges. The first call creates the journal, as
// the owner of the schema.
func asRole(t testing.TB, schema string) string {
	t.Helper()
	server, role := pgtest.Shared(t), "role_"+schema
	url := server.URL("postgres") + "&schema=" + schema
	restricted := strings.Replace(url, "espalier@", role+"@", 1)
	if server.Number(t, "SELECT count(*) FROM pg_roles WHERE rolname = '"+role+"'") > 0 {
		return restricted
	}
	owner, err := postgres.Open(context.Background(), url, postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := owner.Close(); err != nil {
		t.Fatal(err)
	}
	server.Exec(t, "CREATE ROLE "+role+" LOGIN")
	for statement := range strings.SplitSeq(strings.TrimSpace(grants(t, schema, role)), "\n") {
		server.Exec(t, statement)
	}
	return restricted
}

// Projects that have schemas and roles of their own do not see anything of each other.
func TestRolesOfOtherProjectsSeeNothing(t *testing.T) {
	mine, other := asRole(t, "tenant_one"), asRole(t, "tenant_two")
	openURL(t, mine, postgres.Options{})
	openURL(t, other, postgres.Options{})
	foreign := strings.Replace(mine, "schema=tenant_one", "schema=tenant_two", 1)
	s, err := postgres.Open(t.Context(), foreign, postgres.Options{})
	if err == nil {
		s.Close()
		t.Fatal("the journal of another project was opened")
	}
	if !strings.Contains(err.Error(), "permission denied") {
		t.Errorf("%v", err)
	}
}
