// Package sqlite is Consign's store in SQLite, through database/sql and the
// program's own driver. It imports no driver itself, because two SQLite libraries
// in one process on one file lose rows silently.
//
// # Opening the database
//
// The store takes connections as the program has configured them and changes no
// setting for good. For a file on a local disk these are recommended: write-ahead
// logging, so that readers and the one writer do not wait for each other;
// synchronous=FULL, so that what was acknowledged survives a loss of power; a busy
// timeout, so that the program's own transactions wait for their turn; and
// transactions that take the write lock as they begin, because SQLite refuses one
// that reads first and writes after another connection has written.
//
// With modernc.org/sqlite:
//
//	sql.Open("sqlite", "file:app.db?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=busy_timeout(5000)&_txlock=immediate")
//
// With github.com/mattn/go-sqlite3:
//
//	sql.Open("sqlite3", "file:app.db?_journal_mode=WAL&_synchronous=FULL&_busy_timeout=5000")
//
// go-sqlite3 knows _txlock=immediate too, but takes the lock for transactions that
// were asked to be read-only as well, so that views wait for writers. With it, leave
// that out unless transactions of the program read before they write.
//
// [Store.Advise] says what of this a database lacks. An in-memory database needs
// SetMaxOpenConns(1), since each connection has one of its own. A pool of a single
// connection is enough for everything here; a program with one must not call the
// store from within a transaction that it holds open, other than with that
// transaction, and is told so if it does.
//
// SQLite 3.37 or newer is needed.
//
// # One writer
//
// SQLite has one writer at a time. The store's own transactions take the write lock
// as they begin, wait for it for at most 5 s, and hold it for a few milliseconds.
// They queue among themselves; the program's own transactions wait by SQLite's busy
// timeout. Times come from SQLite's clock, in whole milliseconds.
//
// # Errors inside a transaction
//
// SQLite rolls a whole transaction back when a write in it is interrupted, the disk
// is full, or a conflict clause says ROLLBACK, and database/sql does not notice. Each
// statement that comes then commits alone, so a program has to heed the errors of its
// own. The store looks before it writes: in such a transaction its calls return
// consign.ErrClosed and write nothing.
package sqlite
