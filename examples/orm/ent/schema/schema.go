// Package schema is what ent generates the example's client from.
package schema

import (
	"entgo.io/ent"
	"entgo.io/ent/schema/edge"
	"entgo.io/ent/schema/field"
)

// Ticket is a row of the program's own table.
type Ticket struct{ ent.Schema }

// Fields of a ticket, beside its id.
func (Ticket) Fields() []ent.Field { return []ent.Field{field.String("status")} }

// Edges of a ticket: its tags. They are kept in a third table, so that changing
// them together with the ticket takes ent several statements.
func (Ticket) Edges() []ent.Edge { return []ent.Edge{edge.To("tags", Tag.Type)} }

// Tag is what a ticket can be marked with.
type Tag struct{ ent.Schema }

// Fields of a tag, beside its id.
func (Tag) Fields() []ent.Field { return []ent.Field{field.String("name")} }

// Edges of a tag: the tickets that are marked with it.
func (Tag) Edges() []ent.Edge { return []ent.Edge{edge.From("tickets", Ticket.Type).Ref("tags")} }
