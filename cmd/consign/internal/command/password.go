package command

import (
	"bufio"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/consign-go/consign/cli"
	"github.com/consign-go/consign/console"
)

// hashPassword makes what the configuration keeps of a password for the console. It
// reads the password from the input, since everybody on the machine can read what
// stands on a command line.
func hashPassword() *cobra.Command {
	return &cobra.Command{
		Use:   "hash-password",
		Short: "Print the hash of a password for the console",
		Long: `Read a password of at least 12 bytes from the input, up to the end of its line, and print its
hash. Write that into the file that password_hash_file of [console.users.NAME] names.`,
		Example: `  consign hash-password < password.txt > vera.hash`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			line, _ := bufio.NewReader(cmd.InOrStdin()).ReadString('\n')
			password := strings.TrimRight(line, "\r\n")
			if password == "" {
				return &cli.Error{Code: cli.ExitUsage, Err: errors.New("hash-password: there is no password in the input"), Next: "Pipe it in: what stands on a command line can be read by others."}
			}
			hash, err := console.HashPassword(password)
			if err != nil {
				return &cli.Error{Code: cli.ExitUsage, Err: fmt.Errorf("hash-password: %w", err), Next: "Choose another password."}
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), hash)
			return err
		},
	}
}
