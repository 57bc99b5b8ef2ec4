package consign

import (
	"encoding/json"
	"errors"
	"fmt"
)

// validator is an input that checks itself across its fields.
type validator interface{ Validate() error }

// check reports what is wrong with an input, given by its address: by the rules of
// its fields, and across them.
func (k *kind) check(fs *faults, field string, in any) {
	broken := k.rules.Check(in)
	for _, f := range broken {
		fs.add(field+"."+f.Path, f.Rule)
	}
	v, ok := in.(validator)
	if !ok {
		return
	}
	if len(broken) > 0 {
		// It may count on what the rules promise. What they found is enough then.
		defer func() { _ = recover() }()
	}
	fs.addValidation(field, v.Validate())
}

// addValidation adds what a Validate method has found.
func (fs *faults) addValidation(field string, err error) {
	var joined interface{ Unwrap() []error }
	var several *Error
	var one Fault
	switch {
	case err == nil:
	case err == error((*Error)(nil)):
		fs.add(field, "is checked by a Validate that returns a nil *Error as an error; it has to return nil")
	case errors.As(err, &joined):
		for _, e := range joined.Unwrap() {
			fs.addValidation(field, e)
		}
	case errors.As(err, &several) && len(several.Faults) > 0:
		for _, f := range several.Faults {
			fs.add(field+"."+f.Field, f.Rule)
		}
	case errors.As(err, &one):
		fs.add(field+"."+one.Field, one.Rule)
	default:
		fs.add(field, err.Error())
	}
}

// decoding reports whether err is, or wraps, what the decoder says of a text.
func decoding(err error) bool {
	var mistyped *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	return errors.As(err, &mistyped) || errors.As(err, &syntax)
}

// unreadable is why stored input does not decode. The decoder's own words may
// quote the input.
func unreadable(err error) error {
	var mistyped *json.UnmarshalTypeError
	if errors.As(err, &mistyped) && mistyped.Field != "" {
		return fmt.Errorf("the stored input does not decode: %s is not %s", mistyped.Field, mistyped.Type)
	}
	return errors.New("the stored input does not decode")
}
