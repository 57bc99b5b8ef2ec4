package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
)

// Record is what has been measured so far, each measure as it was taken last: the
// raw results behind the page.
type Record struct {
	Runs []Results `json:"runs"`
}

// LoadRecord reads a record. A file that is not there is an empty one.
func LoadRecord(name string) (*Record, error) {
	raw, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return &Record{}, nil
	}
	if err != nil {
		return nil, err
	}
	r := &Record{}
	if err := json.Unmarshal(raw, r); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return r, nil
}

// Save writes the record whole or not at all.
func (r *Record) Save(name string) error {
	raw, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(name+".new", append(raw, '\n'), 0o644); err != nil {
		return err
	}
	return os.Rename(name+".new", name)
}

// Add takes a run in. Its measures replace what the record had of them; a run with
// nothing left of it goes, and others keep their machine, configuration and time.
func (r *Record) Add(run Results) {
	run.Lines = nil // made from the samples when they are wanted
	for i := range r.Runs {
		r.Runs[i].Measures = slices.DeleteFunc(r.Runs[i].Measures, func(m string) bool {
			return slices.Contains(run.Measures, m)
		})
	}
	r.Runs = slices.DeleteFunc(r.Runs, func(old Results) bool { return len(old.Measures) == 0 })
	r.Runs = append(r.Runs, run)
}

// Of returns the run in which a measure was taken last; nil: it never was.
func (r *Record) Of(measure string) *Results {
	for i := range r.Runs {
		if slices.Contains(r.Runs[i].Measures, measure) {
			return &r.Runs[i]
		}
	}
	return nil
}

// Lines are the comparisons of one measure.
func (r *Record) Lines(measure string) []Line {
	run := r.Of(measure)
	if run == nil {
		return nil
	}
	return Compare(run.Samples, []string{measure})
}
