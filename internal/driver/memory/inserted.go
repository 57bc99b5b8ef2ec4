package memory

import "github.com/consign-go/consign/internal/driver"

// Inserted returns the intents that tx has written and not yet committed, in the
// order in which they were.
func (tx *Tx) Inserted() []driver.Intent {
	tx.store.mu.Lock()
	defer tx.store.mu.Unlock()
	out := make([]driver.Intent, len(tx.rows.intents))
	for i, n := range tx.rows.intents {
		out[i] = *n
	}
	return out
}
