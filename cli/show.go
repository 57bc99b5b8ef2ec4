package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/consign-go/consign"
)

// intentJSON is what is known about one intent.
type intentJSON struct {
	Ref         string `json:"ref"`
	Profile     string `json:"profile"`
	Kind        string `json:"kind"`
	Status      string `json:"status"`
	Code        string `json:"code"`
	Generation  int64  `json:"generation"`
	Attempts    int    `json:"attempts"`
	DeliveryKey string `json:"delivery_key"`
	Uncertain   bool   `json:"uncertain"`
	CreatedAt   moment `json:"created_at"`
	UpdatedAt   moment `json:"updated_at"`
	DueAt       moment `json:"due_at"`
	Deadline    moment `json:"deadline"`
	LastError   string `json:"last_error"`
}

func (t *Tree) show() *cobra.Command {
	return &cobra.Command{
		Use:     "show REF",
		Short:   "Tell what is known about one intent",
		Long:    "Tell what is known about one intent: everything but what is sent and to whom.",
		Example: `  consign show 0198c5f0-1f7e-7cc3-98c4-dc0c0c07398f`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ref, err := refArg(args)
			if err != nil {
				return err
			}
			p, err := t.open(cmd, Need{})
			if err != nil {
				return err
			}
			i, err := p.outbox.Find(cmd.Context(), ref)
			if err != nil {
				return err
			}
			v := intent(&i)
			return t.print(cmd, v, v.text())
		},
	}
}

func intent(i *consign.Intent) intentJSON {
	return intentJSON{
		Ref: i.Ref.String(), Profile: string(i.Profile), Kind: i.Kind, Status: string(i.Status), Code: string(i.Code),
		Generation: i.Generation, Attempts: i.Attempts, DeliveryKey: i.DeliveryKey.String(), Uncertain: i.Uncertain,
		CreatedAt: moment{i.CreatedAt}, UpdatedAt: moment{i.UpdatedAt}, DueAt: moment{i.DueAt}, Deadline: moment{i.Deadline},
		LastError: i.LastError,
	}
}

// text is the intent for people.
func (v *intentJSON) text() string {
	return fmt.Sprintf(`ref           %s
profile       %s
kind          %s
status        %s
code          %s
uncertain     %t
attempts      %d
generation    %d
delivery key  %s
created       %s
updated       %s
due           %s
deadline      %s
last error    %s`, v.Ref, v.Profile, v.Kind, v.Status, orDash(v.Code), v.Uncertain, v.Attempts, v.Generation, v.DeliveryKey,
		v.CreatedAt, v.UpdatedAt, v.DueAt, v.Deadline, orDash(v.LastError))
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
