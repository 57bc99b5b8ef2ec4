module github.com/consign-go/consign/sqlite/mattntest

go 1.26.0

require (
	github.com/consign-go/consign v0.0.0
	github.com/mattn/go-sqlite3 v1.14.53
)

require pgregory.net/rapid v1.3.0 // indirect

replace github.com/consign-go/consign => ../..
