package sqlite_test

import (
	"testing"

	"github.com/consign-go/consign/sqlite/internal/suite"
)

func TestViewsOnlyRead(t *testing.T) { suite.Views(t, modernc) }

func TestLocks(t *testing.T) { suite.Locks(t, modernc) }
