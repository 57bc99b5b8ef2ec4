package cli

import (
	"runtime/debug"

	"github.com/spf13/cobra"
)

func (t *Tree) version() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: `  consign version --json`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v := t.opt.Version
			if v == "" {
				v = Version()
			}
			return t.print(cmd, map[string]string{"version": v}, v)
		},
	}
}

// Version is the version of the main module of the running program, "(devel)" for
// one that was built from a checkout.
func Version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}
