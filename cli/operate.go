package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/operator"
)

// byCommand is the reason in the audit where none was given.
const byCommand = "by command"

// who adds the flags that say who acts and why.
func who(cmd *cobra.Command) *operator.By {
	by := &operator.By{}
	cmd.Flags().StringVar(&by.Who, "by", "", "who you are, for the audit")
	cmd.Flags().StringVar(&by.Why, "why", byCommand, "why, for the audit; it survives an erasure, so name nobody")
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		counts := cmd.Flags().Lookup("dry-run")
		if by.Who == "" && (counts == nil || counts.Value.String() != "true") {
			return usage("--by is missing: say who you are, for the audit")
		}
		return nil
	}
	return by
}

// desk opens the program and returns its operator.
func (t *Tree) desk(cmd *cobra.Command) (*operator.Operator, error) {
	p, err := t.open(cmd, Need{})
	if err != nil {
		return nil, err
	}
	return p.Operator()
}

func (t *Tree) resolve() *cobra.Command {
	var f operator.Finding
	var outcome, supersedes, proof string
	accept := false
	cmd := &cobra.Command{
		Use:   "resolve REF",
		Short: "Record what you found out about an intent in review",
		Long: `Record a finding about an intent in review: delivered, not-delivered or abandoned, with the
evidence for it. Ask the far side about the delivery key first. The status stays as it is; a
wrong finding is corrected by another that --supersedes it.

--accept-evidence records what the history says beside the record: a success that came late,
or a proof that came with an answer. --proof records what a receiver signed and somebody got
from it: the value of the header Consign-Proof, which is checked against the delivery key and
the bound request by the keys of the channel (proof_env or proof_file in the configuration).
A proof that does not hold is refused (3) and changes nothing.`,
		Example: `  consign resolve 0198c5f0-1f7e-7cc3-98c4-dc0c0c07398f --outcome not-delivered --evidence 'no such key in their log' --by ann`,
		Args:    cobra.ExactArgs(1),
	}
	by := who(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ref, err := refArg(args)
		if err != nil {
			return err
		}
		if supersedes != "" {
			if f.Supersedes, err = consign.ParseID(supersedes); err != nil {
				return usage("--supersedes is no UUID")
			}
		}
		handed := cmd.Flags().Changed("proof")
		switch {
		case handed && (accept || outcome != "" || f.Evidence != ""):
			return usage("--proof says itself what was found: leave out --outcome, --evidence and --accept-evidence")
		case accept && (outcome != "" || f.Evidence != ""):
			return usage("--accept-evidence says itself what was found: leave out --outcome and --evidence")
		}
		p, err := t.open(cmd, Need{Deliver: handed}) // the keys of proofs are among what sending needs
		if err != nil {
			return err
		}
		o, err := p.Operator()
		if err != nil {
			return err
		}
		f.Outcome = operator.Outcome(outcome)
		var r operator.Resolution
		switch {
		case handed:
			r, err = o.AcceptProof(cmd.Context(), *by, ref, operator.Signed{Proof: proof, Supersedes: f.Supersedes}, p)
		case accept:
			r, err = o.AcceptEvidence(cmd.Context(), *by, ref, f.Supersedes)
		default:
			r, err = o.Resolve(cmd.Context(), *by, ref, f)
		}
		if err != nil {
			return err
		}
		v := resolutionJSON(&r)
		return t.print(cmd, v, columns(v.ID, v.Outcome))
	}
	fl := cmd.Flags()
	fl.StringVar(&outcome, "outcome", "", "delivered, not-delivered or abandoned")
	fl.StringVar(&f.Evidence, "evidence", "", "how you know; erased with the intent")
	fl.StringVar(&supersedes, "supersedes", "", "`ID` of the finding that this one corrects")
	suggest(cmd, "outcome", "delivered", "not-delivered", "abandoned")
	fl.BoolVar(&accept, "accept-evidence", false, "record what the history says beside the record")
	fl.StringVar(&proof, "proof", "", "what the receiver signed; it is checked")
	return cmd
}

// sentJSON is an intent that was sent again.
type sentJSON struct {
	Ref         string `json:"ref"`
	DeliveryKey string `json:"delivery_key"`
	Warning     string `json:"warning"`
}

// again is redeliver and reissue, which differ in the call.
func (t *Tree) again(cmd *cobra.Command, call func(o *operator.Operator, by operator.By, ref consign.Ref) (operator.Sent, error)) *cobra.Command {
	by := who(cmd)
	cmd.Args = cobra.ExactArgs(1)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ref, err := refArg(args)
		if err != nil {
			return err
		}
		o, err := t.desk(cmd)
		if err != nil {
			return err
		}
		s, err := call(o, *by, ref)
		if err != nil {
			return err
		}
		wake(cmd.Context(), t.program)
		if s.Warning != "" && !t.json {
			fmt.Fprintln(cmd.ErrOrStderr(), "warning: "+s.Warning)
		}
		v := sentJSON{s.Ref.String(), s.Key.String(), s.Warning}
		return t.print(cmd, v, v.Ref)
	}
	return cmd
}

func (t *Tree) redeliver() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "redeliver REF",
		Short: "Send an intent again under its delivery key",
		Long: `Create an intent that carries the old one's payload and delivery key over, with a new budget
and deadline, and print its ref. It is refused (3) where the old one may have been delivered
and the receiver does not drop repeated keys, where it is open, was delivered, erased or
sent again already, and where the operation has to be run again.`,
		Example: `  consign redeliver 0198c5f0-1f7e-7cc3-98c4-dc0c0c07398f --by ann --why 'the receiver is up again'`,
	}
	return t.again(cmd, func(o *operator.Operator, by operator.By, ref consign.Ref) (operator.Sent, error) {
		return o.Redeliver(cmd.Context(), by, ref)
	})
}

func (t *Tree) reissue() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "reissue REF",
		Short: "Send an intent again under a fresh delivery key",
		Long: `Create an intent with the old one's payload and a fresh delivery key, so that a receiver
takes it for another, and print its ref. Where the outcome of the old one is unknown it is
refused (3) until a finding says that it was not delivered.`,
		Example: `  consign reissue 0198c5f0-1f7e-7cc3-98c4-dc0c0c07398f --by ann`,
	}
	return t.again(cmd, func(o *operator.Operator, by operator.By, ref consign.Ref) (operator.Sent, error) {
		return o.Reissue(cmd.Context(), by, ref)
	})
}

func (t *Tree) cancel() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cancel REF",
		Short: "Stop an intent that is not in flight",
		Long: `Stop an intent that is not in flight and print what became of it. What was started cannot be
recalled, and what has ended stays as it is: both are refused (3).`,
		Example: `  consign cancel 0198c5f0-1f7e-7cc3-98c4-dc0c0c07398f --by ann --why 'sent by hand'`,
		Args:    cobra.ExactArgs(1),
	}
	by := who(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ref, err := refArg(args)
		if err != nil {
			return err
		}
		o, err := t.desk(cmd)
		if err != nil {
			return err
		}
		r, err := o.Cancel(cmd.Context(), *by, ref)
		if err != nil {
			return err
		}
		return t.printResult(cmd, r)
	}
	return cmd
}

// pauseJSON is a pause, or its end.
type pauseJSON struct {
	Profile string `json:"profile"`
	Kind    string `json:"kind"`
	Paused  bool   `json:"paused"`
}

func (t *Tree) pause() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "pause KIND",
		Short: "Keep every program from claiming a channel or kind",
		Long: `Keep every program from claiming what is for a channel (or, with --profile work, of a kind of
work) until it is resumed. What runs goes on to its end; deadlines go on, too.`,
		Example: `  consign pause crm --by ann --why 'their maintenance window'`,
	}
	return t.paused(cmd, true)
}

func (t *Tree) resume() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "resume KIND",
		Short:   "End a pause",
		Long:    "End the pause of a channel or, with --profile work, of a kind of work.",
		Example: `  consign resume crm --by ann`,
	}
	return t.paused(cmd, false)
}

// paused is pause and resume.
func (t *Tree) paused(cmd *cobra.Command, pause bool) *cobra.Command {
	by := who(cmd)
	var profile string
	cmd.Flags().StringVar(&profile, "profile", string(consign.ProfileMessage), "message for a channel, work for a kind of work")
	suggest(cmd, "profile", "message", "work")
	cmd.Args = cobra.ExactArgs(1)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		o, err := t.desk(cmd)
		if err != nil {
			return err
		}
		call, did := o.Resume, "resumed"
		if pause {
			call, did = o.Pause, "paused"
		}
		if err := call(cmd.Context(), *by, consign.Profile(profile), args[0]); err != nil {
			return err
		}
		return t.print(cmd, pauseJSON{profile, args[0], pause}, columns(did, args[0]))
	}
	return cmd
}
