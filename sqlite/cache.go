package sqlite

import (
	"context"
	"database/sql"
	"sync"
	"time"
)

// cache keeps statements prepared from one call to the next. Preparing a write takes
// SQLite ten times as long as running it, because it compiles the constraints of the
// table into every statement; for a batch that is nothing, for a single row it is
// half of everything.
//
// database/sql prepares a statement of the cache once on each connection that uses
// it, and closes it with the connection, so nothing is held while the program is
// idle but memory.
type cache struct {
	mu    sync.Mutex
	used  map[string]int       // by text, the names not filled in
	known map[string]*sql.Stmt // those used more than once
}

// cacheSize is how many statements are kept. A program uses about thirty.
const cacheSize = 100

// find returns the statement of text, nil where it is not kept.
func (c *cache) find(text string) *sql.Stmt {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.known[text]
}

// wanted notes that text was used, and reports whether it is worth keeping.
func (c *cache) wanted(text string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.used == nil {
		c.used, c.known = map[string]int{}, map[string]*sql.Stmt{}
	}
	if c.used[text] == 0 && len(c.used) >= 4*cacheSize || len(c.known) >= cacheSize {
		return false
	}
	c.used[text]++
	return c.used[text] > 1 && c.known[text] == nil
}

// keep stores the statement of text, and reports whether it was the first to.
func (c *cache) keep(text string, stmt *sql.Stmt) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known[text] != nil {
		return false
	}
	c.known[text] = stmt
	return true
}

// remember keeps the statements that a call had to prepare. It is for after the
// call, when its connection may be free again: it uses an idle connection or none,
// since nothing here may wait for one that a caller higher up holds.
func (e *engine) remember(texts []string) {
	for _, text := range texts {
		if !e.cache.wanted(text) || e.db.Stats().Idle == 0 {
			continue
		}
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		stmt, err := e.db.PrepareContext(ctx, e.sql(text))
		cancel()
		if err == nil && !e.cache.keep(text, stmt) {
			stmt.Close()
		}
	}
}
