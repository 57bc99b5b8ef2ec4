package plainsqltest

import (
	"github.com/consign-go/consign"
)

func newID() string { return consign.NewRef().String() }

// ref is an id as the tables hold it.
func (b *base) ref(id string) any {
	ref, err := consign.ParseRef(id)
	if err != nil {
		panic(err)
	}
	if b.answers {
		return id
	}
	return ref.ID[:]
}
