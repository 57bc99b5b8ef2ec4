package bench

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// Everything is all that can be asked for, in the order in which it is taken.
func Everything() []string { return slices.Concat(Measures, Curves, []string{Engine, Profiled, Speed}) }

// Select returns the measures that names ask for: each by its own name, and "P",
// "growth" and "all" for several.
func Select(names []string) ([]string, error) {
	sets := map[string][]string{"P": Measures, "growth": Curves, "all": Everything()}
	asked := map[string]bool{}
	for _, name := range names {
		set, ok := sets[name]
		if !ok {
			set = []string{name}
		}
		for _, m := range set {
			if !slices.Contains(Everything(), m) {
				return nil, fmt.Errorf("no measure %q; there are %s", m, strings.Join(Everything(), ", "))
			}
			asked[m] = true
		}
	}
	return slices.DeleteFunc(Everything(), func(m string) bool { return !asked[m] }), nil
}

// Group is what is measured with one configuration.
type Group struct {
	Config   Config
	Measures []string
}

// Groups are the measures as they are run: those that share subjects together.
func Groups(c Config, measures []string) (groups []Group) {
	for _, set := range [][]string{Measures, Curves, {Engine, Profiled}, {Speed}} {
		asked := slices.DeleteFunc(slices.Clone(set), func(m string) bool { return !slices.Contains(measures, m) })
		if len(asked) > 0 {
			groups = append(groups, Group{c, asked})
		}
	}
	if slices.Contains(measures, Speed) {
		groups[len(groups)-1].Config.N = c.Filled().Guarded
	}
	return groups
}

// Take takes the measures of r, and calls seen with each sample.
func (s *Suite) Take(ctx context.Context, r *Results, seen func(Sample)) error {
	done := func(x Sample) {
		r.Samples = append(r.Samples, x)
		seen(x)
	}
	if err := s.Run(ctx, r.Measures, done); err != nil {
		return err
	}
	if err := s.grow(ctx, r.Measures, done); err != nil {
		return err
	}
	if slices.Contains(r.Measures, Engine) {
		if err := s.engine(ctx, done); err != nil {
			return fmt.Errorf("%s: %w", Engine, err)
		}
	}
	if slices.Contains(r.Measures, Profiled) {
		var err error
		if r.Profiles, err = s.profile(ctx); err != nil {
			return fmt.Errorf("%s: %w", Profiled, err)
		}
	}
	return nil
}
