// Package mattntest tests the SQLite store on github.com/mattn/go-sqlite3, the
// library in C. It is a module of its own, so that users of Consign need neither
// that library nor a C compiler.
package mattntest
