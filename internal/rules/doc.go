// Package rules checks values against what the struct tags of their type say.
//
// The tag is named consign and holds rules separated by commas:
//
//	required     the member is there, and a text, list or map is not empty
//	nullable     null is accepted; without it a nil pointer, slice, map or
//	             interface is a fault, unless omitempty or omitzero leaves it out
//	min=, max=   range of a number, inclusive
//	minlen=, maxlen=
//	             length, inclusive: a text's in characters (code points), a list's
//	             or map's in entries
//	enum=a|b     the only values of a text or integer
//
// Rules look at what is written: a member that its json tag leaves out is only
// ever missing, never too short. On a pointer they are about what it points to.
// Structs inside structs, lists and maps are checked by their own tags.
//
// A type of which json.Unmarshal cannot read back what is written is refused: one
// with an interface that has methods, or a struct embedded by a pointer whose
// name is not exported.
//
// Faults name members as package canon does and never quote a value.
package rules
