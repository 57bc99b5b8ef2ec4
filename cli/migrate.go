package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/consign-go/consign/migrate"
)

func (t *Tree) migrate() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "migrate",
		Short:   "Bring the tables up or down, tell where they stand, or print the SQL",
		Example: `  consign migrate up`,
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return usage("migrate what? up, down, status or sql")
		},
	}
	cmd.AddCommand(t.migrateUp(), t.migrateDown(), t.migrateStatus(), t.migrateSQL())
	return cmd
}

// stepJSON is a numbered change of the schema.
type stepJSON struct {
	Version int    `json:"version"`
	Name    string `json:"name"`
	Applied moment `json:"applied_at"`
}

// migrations opens the program and returns the store whose tables are meant.
func (t *Tree) migrations(cmd *cobra.Command, need Need) (migrate.Store, error) {
	p, err := t.open(cmd, need)
	if err != nil {
		return nil, err
	}
	if p.store == nil {
		return nil, errors.New("this store has no migrations")
	}
	return p.store, nil
}

func (t *Tree) printSteps(cmd *cobra.Command, did string, steps []migrate.Step) error {
	for _, s := range steps {
		line := fmt.Sprintf("%s %04d_%s", did, s.Version, s.Name)
		if err := t.print(cmd, stepJSON{s.Version, s.Name, moment{s.Applied}}, line); err != nil {
			return err
		}
	}
	return nil
}

func (t *Tree) migrateUp() *cobra.Command {
	return &cobra.Command{
		Use:   "up",
		Short: "Apply what the database does not have yet",
		Long: `Apply every step that the database does not have yet, all of them or none, and print those.
It is harmless to run at every start of every instance: who comes first does the work.`,
		Example: `  consign migrate up --json`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			store, err := t.migrations(cmd, Need{Create: true})
			if err != nil {
				return err
			}
			progress(cmd.Context(), "migrating")
			steps, err := migrate.Up(cmd.Context(), store)
			if err != nil {
				return err
			}
			return t.printSteps(cmd, "applied", steps)
		},
	}
}

func (t *Tree) migrateDown() *cobra.Command {
	to, yes := 0, false
	cmd := &cobra.Command{
		Use:   "down",
		Short: "Undo steps: drops tables with what is in them",
		Long: `Undo every step above version --to, newest first. It drops tables with what is in them, so
it does nothing without --yes.`,
		Example: `  consign migrate down --to 0 --yes`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !yes {
				return &Error{Code: ExitRefused, Err: errors.New("migrate down drops tables with every intent in them"),
					Next: "Add --yes if that is what you want."}
			}
			if to < 0 {
				return usage("--to is negative")
			}
			store, err := t.migrations(cmd, Need{})
			if err != nil {
				return err
			}
			progress(cmd.Context(), "migrating")
			steps, err := migrate.Down(cmd.Context(), store, to)
			if err != nil {
				return err
			}
			return t.printSteps(cmd, "undone", steps)
		},
	}
	cmd.Flags().IntVar(&to, "to", 0, "the `version` to go back to; 0 removes everything")
	cmd.Flags().BoolVar(&yes, "yes", false, "do it")
	return cmd
}

func (t *Tree) migrateStatus() *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Tell which steps are applied",
		Long: `Print every step that this program knows or the database has. It changes nothing, and ends
with 1 where a step is missing.`,
		Example: `  consign migrate status`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			store, err := t.migrations(cmd, Need{})
			if err != nil {
				return err
			}
			steps, err := migrate.Status(cmd.Context(), store)
			missing := 0
			for _, s := range steps {
				did := "applied " + moment{s.Applied}.String()
				if s.Applied.IsZero() {
					did, missing = "missing", missing+1
				}
				if perr := t.printSteps(cmd, did, []migrate.Step{s}); err == nil {
					err = perr
				}
			}
			if err == nil && missing > 0 {
				return &Error{Code: ExitFailed, Err: fmt.Errorf("migrate status: not applied: %s", number(missing, "step")),
					Next: fmt.Sprintf("Run \"%s migrate up\".", t.opt.Name)}
			}
			return err
		},
	}
}

func (t *Tree) migrateSQL() *cobra.Command {
	down := false
	cmd := &cobra.Command{
		Use:   "sql",
		Short: "Print the SQL for a tool of your own",
		Long: `Print the script that "up" would run on an empty database, or with --down the one that
undoes everything. It keeps the same records, so you can change your mind.`,
		Example: `  consign migrate sql --db postgres://db.example/app > consign.sql`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			store, err := t.migrations(cmd, Need{Create: true})
			if err != nil {
				return err
			}
			text := migrate.SQL(store, down)
			if t.json {
				return t.print(cmd, map[string]string{"sql": text}, "")
			}
			_, err = fmt.Fprint(cmd.OutOrStdout(), text)
			return err
		},
	}
	cmd.Flags().BoolVar(&down, "down", false, "the way back")
	return cmd
}
