package plainsqltest

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write testdata/contract.golden anew")

// TestContractChangesOnlyOnPurpose: programs that nobody here compiles rely on names,
// order, types and rights. What is in the golden file may grow by another version of
// the contract; the lines of a released one stay.
func TestContractChangesOnlyOnPurpose(t *testing.T) {
	var got strings.Builder
	b := onPostgres(t)
	for _, name := range []string{"enqueue_message", "wake"} {
		const query = `SELECT format(E'%s\n  (%s)\n  RETURNS %s, definer %s, %s\n  may be called by %s', proname,
				replace(pg_get_function_arguments(oid), ', ', E',\n   '), pg_get_function_result(oid), prosecdef,
				array_to_string(proconfig, ', '), replace(proacl::text, current_user, 'owner'))
			FROM pg_proc WHERE pronamespace = $1::regnamespace AND proname = $2`
		fmt.Fprintln(&got, "postgres", one[string](t, b, query, b.schema, name))
	}
	b = onSQLite(t)
	fmt.Fprintln(&got, "sqlite", one[string](t, b, `SELECT 'enqueue_message' || char(10) || '  (' || group_concat(name, ', ') || ')' FROM pragma_table_info('{s}enqueue_message')`))

	const golden = "testdata/contract.golden"
	if *update {
		if err := os.WriteFile(golden, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got.String() != string(want) {
		t.Errorf("the contract is\n%s\nwant\n%s", got.String(), want)
	}
	guide, err := os.ReadFile("../../docs/sql.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		"contract", "channel", "payload", "recipient", "id", "task", "task_index", "subject", "not_before",
	} {
		if !strings.Contains(string(guide), "\n| `"+name+"` |") {
			t.Errorf("docs/sql.md does not explain %s", name)
		}
	}
}
