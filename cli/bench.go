package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/operator"
)

// benchChannel is what a measurement is sent through: to nobody.
const benchChannel = "consign-bench"

// benchJSON is what was measured.
type benchJSON struct {
	Messages           int     `json:"messages"`
	PayloadBytes       int     `json:"payload_bytes"`
	EnqueuedPerSecond  float64 `json:"enqueued_per_second"`
	DeliveredPerSecond float64 `json:"delivered_per_second"`
}

func (t *Tree) bench() *cobra.Command {
	v := benchJSON{}
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure this database: enqueue, deliver to nobody",
		Long: `Commit --messages in batches, deliver them to nobody with every durable step, and print how
many that makes in a second: what this machine, its network and this database can do, without
any receiver. It takes the database's full attention. What it leaves is erased: a tombstone
without content for each message.`,
		Example: `  consign bench --messages 20000 --json`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if v.Messages < 1 || v.Messages > 1_000_000 || v.PayloadBytes < 20 || v.PayloadBytes > 16_000 {
				return usage("--messages is from 1 to 1000000 and --payload-bytes from 20 to 16000")
			}
			p, err := t.open(cmd, Need{})
			if err != nil {
				return err
			}
			if err := v.measure(cmd.Context(), p); err != nil {
				return err
			}
			return t.print(cmd, v, fmt.Sprintf("enqueued   %8.0f/s\ndelivered  %8.0f/s", v.EnqueuedPerSecond, v.DeliveredPerSecond))
		},
	}
	cmd.Flags().IntVar(&v.Messages, "messages", 10_000, "how `many`")
	cmd.Flags().IntVar(&v.PayloadBytes, "payload-bytes", 100, "how large each payload is")
	return cmd
}

// measure enqueues, delivers and erases.
func (v *benchJSON) measure(ctx context.Context, p *Program) (err error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var delivered atomic.Int64
	o, err := p.another(&consign.Options{Program: benchChannel, Workers: 256, Channels: []consign.Channel{{
		Name: benchChannel, Retry: consign.OnSchedule, Idempotent: true,
		Deliver: func(context.Context, consign.Message, consign.Attempt) error {
			if delivered.Add(1) == int64(v.Messages) {
				stop() // once the settles are written down, since the end is a graceful one
			}
			return nil
		},
	}}})
	if err != nil {
		return err
	}
	subject := benchChannel + " " + consign.NewRef().String()
	defer func() { err = errors.Join(err, cleanUp(ctx, p, subject)) }()
	progress(ctx, "enqueueing %d messages", v.Messages)
	began := time.Now()
	if err := v.fill(ctx, o, subject); err != nil {
		return err
	}
	v.EnqueuedPerSecond = float64(v.Messages) / time.Since(began).Seconds()
	progress(ctx, "delivering %d messages", v.Messages)
	began = time.Now()
	err = o.Serve(ctx)
	v.DeliveredPerSecond = float64(v.Messages) / time.Since(began).Seconds()
	if err == nil && delivered.Load() < int64(v.Messages) {
		err = context.Cause(ctx) // interrupted
	}
	return err
}

// fill commits the messages.
func (v *benchJSON) fill(ctx context.Context, o outbox, subject string) error {
	payload := json.RawMessage(`{"text":"` + strings.Repeat("x", max(v.PayloadBytes-11, 1)) + `"}`)
	const batch = 1000
	for left := v.Messages; left > 0; left -= batch {
		ms := make([]consign.Message, min(left, batch))
		for i := range ms {
			ms[i] = consign.Message{Channel: benchChannel, Payload: payload, Subject: subject}
		}
		if _, err := o.EnqueueAllNow(ctx, ms); err != nil {
			return err
		}
	}
	return nil
}

// cleanUp erases what a measurement left.
func cleanUp(ctx context.Context, p *Program, subject string) error {
	o, err := p.Operator()
	if err != nil {
		return err
	}
	_, err = o.Erase(context.WithoutCancel(ctx), operator.By{Who: benchChannel, Why: "a measurement is over"}, []string{subject})
	return err
}
