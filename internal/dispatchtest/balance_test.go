//go:build unix

package dispatchtest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/effort"
	"github.com/consign-go/consign/internal/lifecycle"
)

// balance is one look at the books: rows of deliveries that are open, at an end and
// erased, the sum of what was pruned, and what was enqueued. All of it is read in
// one statement, which sees one moment.
type balance struct{ open, terminal, erased, pruned, enqueued int64 }

func (b balance) holds() bool { return b.open+b.terminal+b.erased+b.pruned == b.enqueued }

func (r *records) balance(ctx context.Context) (b balance, err error) {
	sum := func(condition string) string {
		return "(SELECT count(*) FROM " + r.prefix + "delivery WHERE " + condition + ")"
	}
	query := "SELECT " + sum("erased_at IS NULL AND status < 3") + ", " + sum("erased_at IS NULL AND status >= 3") + ", " +
		sum("erased_at IS NOT NULL") + ", COALESCE((SELECT CAST(value AS bigint) FROM " + r.prefix + "setting WHERE name = 'pruned'), 0), " +
		"(SELECT count(*) FROM audit_born)"
	err = r.db.QueryRowContext(ctx, query).Scan(&b.open, &b.terminal, &b.erased, &b.pruned, &b.enqueued)
	return b, err
}

// births has every delivery noted that is written, in the transaction that writes it.
func (r *records) births(t *testing.T) {
	t.Helper()
	if r.sqlite {
		r.exec(t, "CREATE TABLE audit_born (ref)")
		r.exec(t, "CREATE TRIGGER audit_born AFTER INSERT ON consign_delivery BEGIN INSERT INTO audit_born VALUES (NEW.ref); END")
		return
	}
	r.exec(t, "CREATE TABLE audit_born (ref uuid)")
	r.exec(t, "CREATE FUNCTION audit_born() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$ BEGIN "+
		"INSERT INTO audit_born VALUES (NEW.ref); RETURN NULL; END $$")
	r.exec(t, "CREATE TRIGGER audit_born AFTER INSERT ON delivery FOR EACH ROW EXECUTE FUNCTION audit_born()")
}

// At every moment what was enqueued is open, at an end, erased or pruned: while
// engines deliver, programs enqueue and roll back, people are forgotten and what is
// old is pruned, all at once. Nothing vanishes, and nothing comes from nowhere.
func TestBooksBalanceAtEveryMoment(t *testing.T) {
	onBoth(t, func(t *testing.T, d *database) {
		t.Parallel()
		d.births(t)
		far := newReceiver(t)
		p := program{Address: d.address, Receiver: far.place(), Policy: steady, Kinds: grid(steadyLease, steadyTimeout)}
		c := d.hire(t, 2, p)
		ctx, cancel := context.WithCancel(context.Background())
		var group sync.WaitGroup
		defer group.Wait()
		defer cancel()
		var committed, undone, looks atomic.Int64
		again := func(pause time.Duration, act func(i int) error) {
			group.Go(func() {
				for i := 0; ctx.Err() == nil; i++ {
					if err := act(i); err != nil && ctx.Err() == nil {
						t.Error(err)
					}
					time.Sleep(pause)
				}
			})
		}
		again(5*time.Millisecond, func(i int) error {
			rows := p.Kinds[i%len(p.Kinds)].rows(3)
			for n := range rows {
				rows[n].Subject = fmt.Sprint("person ", (i+n)%50)
			}
			if i%4 == 0 {
				undone.Add(1)
				return d.rollBack(rows)
			}
			committed.Add(3)
			return d.commit(context.Background(), rows)
		})
		again(20*time.Millisecond, func(i int) error {
			_, err := inTurn(func() (int, error) { return d.Erase(context.Background(), []string{fmt.Sprint("person ", i%50)}) })
			return err
		})
		again(10*time.Millisecond, func(i int) error {
			profile := []lifecycle.Profile{lifecycle.Work, lifecycle.Message}[i%2]
			_, err := inTurn(func() (int, error) { return d.Prune(context.Background(), profile, time.Now().Add(time.Hour), 5) })
			return err
		})
		var b balance
		began := time.Now()
		until(t, "enough was erased and pruned", func() bool {
			var err error
			if b, err = d.balance(t.Context()); err != nil {
				t.Fatal(err)
			}
			if looks.Add(1); !b.holds() {
				t.Fatalf("after %s: %+v", time.Since(began), b)
			}
			return b.erased >= 8 && b.pruned >= 30 && b.terminal > 0 && undone.Load() > 10 && time.Since(began) > effort.Of(time.Second, time.Minute)
		})
		cancel()
		group.Wait()
		c.stop()
		b, err := d.balance(t.Context())
		if err != nil || !b.holds() || b.enqueued != committed.Load() {
			t.Errorf("%d were committed; %+v, %v", committed.Load(), b, err)
		}
		if looks.Load() < 20 {
			t.Errorf("only %d looks", looks.Load())
		}
		effort.Note(t, "%d looks; in the end %+v", looks.Load(), b)
	})
}

// rollBack inserts rows and takes them back.
func (d *database) rollBack(rows []driver.New) error {
	tx, err := d.begin(context.Background())
	if err != nil {
		return err
	}
	if err := tx.Insert(context.Background(), rows); err != nil {
		tx.Rollback(context.Background())
		return err
	}
	return tx.Rollback(context.Background())
}
