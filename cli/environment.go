package cli

import (
	"errors"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// variable is the environment's name of a flag.
func variable(flag string) string {
	return "CONSIGN_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// settable reports whether a flag can come from the environment.
func settable(f *pflag.Flag) bool { return f.Name != "help" }

// fromEnvironment sets the flags that were not given. What a variable holds may be
// a secret and is not repeated in an error.
func fromEnvironment(cmd *cobra.Command) error {
	var faults []error
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		text, set := os.LookupEnv(variable(f.Name))
		if f.Changed || !set || text == "" || !settable(f) {
			return
		}
		values := []string{text}
		if f.Value.Type() == "stringArray" { // given more than once: by spaces
			values = strings.Fields(text)
		}
		for _, v := range values {
			if err := cmd.Flags().Set(f.Name, v); err != nil {
				faults = append(faults, usage("%s is no %s", variable(f.Name), f.Value.Type()))
			}
		}
	})
	return errors.Join(faults...)
}

// describeEnvironment says in the help of each flag what its variable is.
func describeEnvironment(root *cobra.Command) {
	seen := map[*pflag.Flag]bool{}
	describe := func(f *pflag.Flag) {
		if settable(f) && !seen[f] {
			seen[f] = true
			f.Usage += " (" + variable(f.Name) + ")"
		}
	}
	for _, c := range everyCommand(root) {
		if c.Name() == "completion" || c.HasParent() && c.Parent().Name() == "completion" {
			continue
		}
		c.LocalFlags().VisitAll(describe)
	}
}

// everyCommand lists root and everything below it.
func everyCommand(root *cobra.Command) []*cobra.Command {
	all := []*cobra.Command{root}
	for _, c := range root.Commands() {
		all = append(all, everyCommand(c)...)
	}
	return all
}

func asError(err error, target **Error) bool { return errors.As(err, target) }
