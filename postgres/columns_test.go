package postgres

import (
	"bytes"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"pgregory.net/rapid"

	"github.com/consign-go/consign/internal/driver"
)

// TestColumnsBothWays: a column arrives the same in binary and as a literal,
// whatever is in it.
func TestColumnsBothWays(t *testing.T) {
	d := open(t)
	conn, err := d.pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	textual := func(c column, cast string) (binary, literal []string) {
		sql := "SELECT COALESCE(v::text, 'NULL') FROM unnest($1::" + cast + "[]) WITH ORDINALITY AS u(v, n) ORDER BY n"
		for _, way := range []struct {
			arg any
			out *[]string
		}{{c, &binary}, {c.literal(), &literal}} {
			rows, err := conn.Query(t.Context(), sql, way.arg)
			if err != nil {
				t.Fatal(err)
			}
			if *way.out, err = pgx.CollectRows(rows, pgx.RowTo[string]); err != nil {
				t.Fatal(err)
			}
		}
		return binary, literal
	}
	same := func(t *rapid.T, c column, cast string, n int) []string {
		binary, literal := textual(c, cast)
		if len(binary) != n || len(literal) != n {
			t.Fatalf("%s: %d and %d of %d elements arrive", cast, len(binary), len(literal), n)
		}
		for i := range binary {
			if binary[i] != literal[i] {
				t.Fatalf("%s element %d is %q in binary, %q as a literal", cast, i, binary[i], literal[i])
			}
		}
		return binary
	}
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 8).Draw(t, "n")
		words, ids, counts := make(texts, n), make(uuids, n), make(numbers, n)
		raw, times := make(blobs, n), make(moments, n)
		for i := range n {
			words[i] = rapid.OneOf(
				rapid.StringMatching(`[\\"{},'$ \t\n\r]{0,12}`), rapid.StringMatching(`[ -~ä€😀]{0,20}`), rapid.Just("NULL"), rapid.Just(""),
			).Draw(t, "text")
			copy(ids[i][:], rapid.SliceOfN(rapid.Byte(), 0, 16).Draw(t, "id"))
			counts[i] = rapid.Int64().Draw(t, "number")
			if rapid.Bool().Draw(t, "some") {
				raw[i] = rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, "bytes")
				times[i] = time.UnixMicro(rapid.Int64Range(1, 250_000_000_000_000_000).Draw(t, "time"))
			}
		}
		for i, got := range same(t, words, "text", n) {
			if want := words[i]; want == "" && got != "NULL" || want != "" && got != want {
				t.Fatalf("text %q arrives as %q", want, got)
			}
		}
		same(t, ids, "uuid", n)
		same(t, counts, "bigint", n)
		same(t, raw, "bytea", n)
		same(t, times, "timestamptz", n)
	})
}

// TestFold: a column is one value where all rows agree, else one for each row.
func TestFold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.IntRange(0, 2), 1, 6).Draw(t, "values")
		all, same := fold(len(values), func(i int) int { return values[i] })
		for i, want := range values {
			got := same
			if all != nil {
				got = all[i]
			}
			if got != want {
				t.Fatalf("%v is folded into %v and %d", values, all, same)
			}
		}
		if all != nil && same != 0 {
			t.Fatalf("%v is folded into %v beside %d, which would fill in for NULL", values, all, same)
		}
	})
}

// TestBatchesAreInOrder: writes lock their rows in the order of refs, so that two
// batches which meet cannot deadlock.
func TestBatchesAreInOrder(t *testing.T) {
	d := open(t)
	claimed := d.claimedNow(t, 50)
	ts := starts(claimed)
	for i := range ts {
		j := (i * 7) % len(ts)
		ts[i], ts[j] = ts[j], ts[i]
	}
	order, err := ordered(ts)
	if err != nil {
		t.Fatal(err)
	}
	refs := columns(ts, order).ref
	for i := range refs {
		if i > 0 && bytes.Compare(refs[i-1][:], refs[i][:]) >= 0 {
			t.Fatalf("row %d is out of order", i)
		}
		if refs[i] != driver.ID(ts[order[i]].Ref) {
			t.Fatalf("row %d is not where it is said to be", i)
		}
	}
	if _, err := ordered(append(ts, ts[0])); err == nil {
		t.Error("a ref that appears twice is accepted")
	}
}
