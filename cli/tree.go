package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/consign-go/consign"
)

// Options describe a command that opens its own program. The zero value has no
// database and can do nothing.
type Options struct {
	// Name is what the command is called. Default: "consign".
	Name string

	// Version is what "version" prints. Default: the version of the main module.
	Version string

	// Open opens the program, at most once in a call of Main and only for commands
	// that need it. An error with a method Findings() []Finding is shown by doctor as
	// what it is. Required.
	Open func(ctx context.Context, need Need) (*Program, error)

	// Flags adds flags to every command. Default: none.
	Flags func(f *pflag.FlagSet)

	// Commands are further commands; one with the name of a command of the tree
	// takes its place. Their errors may be an [*Error]. Default: none.
	Commands []*cobra.Command

	// Input is what "enqueue --payload -" reads. Default: the standard input.
	Input io.Reader
}

// Need is what a command needs a program for.
type Need struct {
	Deliver bool // it may send, or looks at what sending needs
	Create  bool // the database may be made
}

// Tree is the command tree. It is made for one call of Main at a time.
type Tree struct {
	opt     Options
	root    *cobra.Command
	json    bool
	program *Program
	ready   bool // the arguments were understood; errors from here on are the command's own
}

// Mount returns the commands of a program that has its own outbox.
func Mount[TX any](o *consign.Outbox[TX]) *Tree {
	return New(Options{Open: func(context.Context, Need) (*Program, error) { return Of(o), nil }})
}

// New returns the commands of a program that is opened when it is needed.
func New(o Options) *Tree {
	if o.Name == "" {
		o.Name = "consign"
	}
	if o.Input == nil {
		o.Input = os.Stdin
	}
	t := &Tree{opt: o}
	t.root = &cobra.Command{
		Use:   o.Name,
		Short: "The command of the durable outbox Consign.",
		Long: "An intent commits with your transaction or not at all; a committed intent is never silently lost;\n" +
			"a stale owner's writes are refused; what is not known is called unknown.",
		SilenceErrors: true, SilenceUsage: true,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			t.ready = false
			if len(args) > 0 {
				return usage("there is no command %q", args[0])
			}
			return usage("no command was given")
		},
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if err := fromEnvironment(cmd); err != nil {
				return err
			}
			t.ready = true
			return nil
		},
	}
	t.root.PersistentFlags().BoolVar(&t.json, "json", false, "print JSON, one value per line")
	if o.Flags != nil {
		o.Flags(t.root.PersistentFlags())
	}
	t.add()
	t.root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usage("%w", err) })
	t.root.InitDefaultHelpCmd()
	t.root.InitDefaultCompletionCmd()
	describeEnvironment(t.root)
	return t
}

// add adds all commands, those of the options in the place of the tree's own.
func (t *Tree) add() {
	theirs := map[string]bool{}
	for _, c := range t.opt.Commands {
		theirs[c.Name()] = true
	}
	for _, c := range []*cobra.Command{
		t.serve(), t.enqueue(), t.drain(), t.scan(), t.visit(),
		t.list(), t.show(), t.stats(), t.resolve(), t.redeliver(), t.reissue(), t.cancel(), t.pause(), t.resume(), t.prune(), t.erase(),
		t.migrate(), t.doctor(), t.bench(), t.version(),
	} {
		if !theirs[c.Name()] {
			t.root.AddCommand(c)
		}
	}
	t.root.AddCommand(t.opt.Commands...)
}

// Main runs one command and returns its exit code. args are the arguments without
// the program's name.
func (t *Tree) Main(ctx context.Context, args []string, out, errOut io.Writer) int {
	t.root.SetArgs(args)
	t.root.SetIn(t.opt.Input)
	t.root.SetOut(out)
	t.root.SetErr(errOut)
	t.ready = false
	w := watch(errOut)
	defer w.stop()
	command, err := t.root.ExecuteContextC(context.WithValue(ctx, watchKey{}, w))
	if t.program != nil {
		if closing := t.program.close(); err == nil {
			err = closing
		}
		t.program = nil
	}
	if err == nil {
		return ExitDone
	}
	w.stop()
	path := strings.TrimPrefix(strings.TrimPrefix(command.CommandPath(), t.opt.Name), " ")
	var own *Error
	if !t.ready && !asError(err, &own) {
		err = usage("%w", err)
	}
	code, next := judge(t.opt.Name, path, err)
	said := strings.TrimPrefix(err.Error(), "consign: ")
	fmt.Fprintf(errOut, "%s: %s\n%s\n", t.opt.Name, said, next)
	return code
}

// open returns the program of this call.
func (t *Tree) open(cmd *cobra.Command, need Need) (*Program, error) {
	if t.program != nil {
		return t.program, nil
	}
	p, err := t.opt.Open(cmd.Context(), need)
	if err != nil {
		return nil, err
	}
	t.program = p
	return p, nil
}
