package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/consign-go/consign"
)

// mostInput is how much of a payload is read: more than any channel allows.
const mostInput = 4 << 20

func (t *Tree) enqueue() *cobra.Command {
	var m consign.Message
	var payload, id, notBefore string
	cmd := &cobra.Command{
		Use:   "enqueue --channel NAME --payload FILE",
		Short: "Commit one message and print its ref",
		Long: `Commit one message, in a transaction of its own, and print its ref.

The payload is a JSON object; it is what will be sent, in canonical form. With --id the
call can be repeated: the same content under the same ID is the same message, other
content is refused (exit code 3).`,
		Example: `  echo '{"event":"ticket.triaged","ticket":41}' | consign enqueue --channel crm --payload -`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if m.Payload, err = readPayload(cmd, payload); err != nil {
				return err
			}
			if id != "" {
				if m.ID, err = consign.ParseRef(id); err != nil {
					return usage("--id is no UUID")
				}
			}
			if notBefore != "" {
				if m.NotBefore, err = time.Parse(time.RFC3339, notBefore); err != nil {
					return usage("--not-before is no time of RFC 3339, like 2030-01-31T08:00:00Z")
				}
			}
			p, err := t.open(cmd, Need{})
			if err != nil {
				return err
			}
			progress(cmd.Context(), "enqueueing")
			ref, err := p.outbox.EnqueueNow(cmd.Context(), m)
			if err != nil {
				return err
			}
			wake(cmd.Context(), p)
			return t.print(cmd, map[string]string{"ref": ref.String()}, ref.String())
		},
	}
	f := cmd.Flags()
	f.StringVar(&m.Channel, "channel", "", "`name` of the channel")
	f.StringVar(&m.To, "to", "", "recipient as the channel understands it, a URL for a webhook without one of its own")
	f.StringVar(&payload, "payload", "", "`file` with the JSON object to send, - for the standard input")
	f.StringVar(&m.Task, "task", "", "task whose order the message keeps")
	f.IntVar(&m.Index, "index", 0, "place within the task")
	f.StringVar(&m.Subject, "session", "", "session or person whose data it is, for erasure")
	f.StringVar(&id, "id", "", "`UUID` of the message, so that the call can be repeated")
	f.StringVar(&notBefore, "not-before", "", "earliest `time` at which it is sent, as RFC 3339 has it")
	return cmd
}

// wakeTimeout is how long a hint may take. Nothing depends on it.
const wakeTimeout = time.Second

// wake hints programs that serve. They find the message without it, a moment later.
func wake(ctx context.Context, p *Program) {
	ctx, cancel := context.WithTimeout(ctx, wakeTimeout)
	defer cancel()
	_ = p.outbox.Wake(ctx)
}

// readPayload reads the file named, or the standard input.
func readPayload(cmd *cobra.Command, name string) (json.RawMessage, error) {
	var in io.Reader
	switch name {
	case "":
		return nil, usage("--payload is missing: name a file, or - for the standard input")
	case "-":
		in = cmd.InOrStdin()
	default:
		f, err := os.Open(name)
		if err != nil {
			return nil, &Error{Code: ExitFailed, Err: fmt.Errorf("payload: %w", err), Next: "Name a file that can be read, or - for the standard input."}
		}
		defer f.Close()
		in = f
	}
	raw, err := io.ReadAll(io.LimitReader(in, mostInput+1))
	if err != nil {
		return nil, fmt.Errorf("payload: %w", err)
	}
	if len(raw) > mostInput {
		return nil, usage("the payload has more than %d bytes", mostInput)
	}
	return raw, nil
}
