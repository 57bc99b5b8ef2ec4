package postgres_test

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/internal/pgtest"
	"github.com/consign-go/consign/migrate"
	"github.com/consign-go/consign/postgres"
)

// With array_nulls off, the literal of an array holds the word NULL where a value
// is absent. That is found out before anything is written.
func TestArrayNullsOffIsRefused(t *testing.T) {
	pool := pgtest.Pool(t, func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["array_nulls"] = "off" })
	db := stdlib.OpenDBFromPool(pool)
	defer db.Close()
	store, err := postgres.NewSQL(pool, db, &postgres.Options{Schema: pgtest.Schema(t)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := migrate.Up(t.Context(), store); err != nil {
		t.Fatal(err)
	}
	outbox, err := consign.New(store, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = outbox.EnqueueNow(t.Context(), consign.Message{Channel: "crm", Payload: struct{}{}})
	if err == nil || !strings.Contains(err.Error(), "array_nulls is off") {
		t.Errorf("got %v, want a refusal that names the setting", err)
	}
}
