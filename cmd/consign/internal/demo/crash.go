package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/operator"
	"github.com/consign-go/consign/sqlite"
)

// workerEnv makes this program a process that delivers one message of a
// demonstration that runs elsewhere.
const workerEnv = "CONSIGN_DEMO_WORKER"

// worker is what such a process is told.
type worker struct {
	Desk, CRM string // the database, the far side's URL
	Ref       consign.Ref
}

// work delivers the message, unless it is killed first.
func work(ctx context.Context, raw string) error {
	var w worker
	if err := json.Unmarshal([]byte(raw), &w); err != nil {
		return err
	}
	db, err := openSQLite(w.Desk)
	if err != nil {
		return err
	}
	defer db.Close()
	store, err := sqlite.New(db, nil)
	if err != nil {
		return err
	}
	crm, sms, err := endpoints(w.CRM)
	if err != nil {
		return err
	}
	outbox, err := consign.New(store, &consign.Options{Channels: channels(crm, sms)})
	if err == nil {
		_, err = outbox.Visit(ctx, w.Ref)
	}
	return err
}

// killed has another process deliver, and kills it once the CRM has acted.
func killed(ctx context.Context, d *desk) (string, error) {
	ref, err := d.Outbox.EnqueueNow(ctx, d.message(43))
	if err != nil {
		return "", err
	}
	if err := d.killWorker(ctx, ref); err != nil {
		return "", err
	}
	if r, err := d.Outbox.Visit(ctx, ref); err != nil || r.Status != consign.StatusDelivering {
		return "", fmt.Errorf("under the lease of the process that was killed it is %s: %v", r.Status, err)
	}
	// Nobody else may take it before the lease and a margin are over. The tour does
	// not wait for that.
	if _, err := d.db.ExecContext(ctx, `UPDATE consign_delivery SET lease_until = lease_until - 3600000000 WHERE status = 2`); err != nil {
		return "", err
	}
	r, err := d.Outbox.Visit(ctx, ref)
	if err != nil || r.Status != consign.StatusDelivered {
		return "", fmt.Errorf("after the lease it is %s: %v", r.Status, err)
	}
	did, err := d.crm.did(ctx, ref.String())
	got := d.crm.got()
	first, second := got[len(got)-2], got[len(got)-1]
	if err != nil || did != 1 || first != second || first.key != ref.String() {
		return "", fmt.Errorf("the CRM acted %d times on %q and %q: %v", did, first, second, err)
	}
	return "killed while the CRM held its answer back; once the lease was over (turned back in the table, to spare you\n" +
		"       the wait) it was sent again: the CRM got two equal requests under one key and acted once", nil
}

func (d *desk) killWorker(ctx context.Context, ref consign.Ref) error {
	told, err := json.Marshal(worker{Desk: d.path, CRM: d.crm.url, Ref: ref})
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	acted, release := d.crm.hold()
	defer release()
	ctx, cancel := context.WithTimeout(ctx, time.Minute) // a slow machine needs a while to start a process
	defer cancel()
	cmd := exec.CommandContext(ctx, self, "demo")
	cmd.Env = append(os.Environ(), workerEnv+"="+string(told))
	if err := cmd.Start(); err != nil {
		return err
	}
	select {
	case <-acted:
	case <-ctx.Done():
	}
	killed := cmd.Process.Kill()
	cmd.Wait() // it ends with the signal
	return errors.Join(killed, ctx.Err())
}

// unknown lets a receiver that keeps no keys hang up, and a person find out.
func unknown(ctx context.Context, d *desk) (string, error) {
	m := consign.Message{Channel: "sms", To: d.crm.url + "/sms", Payload: map[string]any{"text": "ticket 43 is triaged"}}
	ref, err := d.Outbox.EnqueueNow(ctx, m)
	if err != nil {
		return "", err
	}
	r, err := d.Outbox.Visit(ctx, ref)
	if err != nil || r.Status != consign.StatusFailed || r.Code != consign.CodeOutcomeUnknown {
		return "", fmt.Errorf("without an answer it is %s %s: %v", r.Status, r.Code, err)
	}
	if _, err := d.Outbox.Visit(ctx, ref); err != nil {
		return "", err
	}
	did, err := d.crm.did(ctx, ref.String())
	if err != nil || did != 1 {
		return "", fmt.Errorf("the gateway sent %d texts: %v", did, err)
	}
	by := operator.By{Who: "the desk's lead", Why: "the gateway was asked"}
	if _, err := d.people.Reissue(ctx, by, ref); err == nil {
		return "", errors.New("it was sent again before anybody found out")
	}
	review, err := d.people.Review(ctx, operator.ReviewFilter{})
	if err != nil || len(review.Entries) != 1 || review.Entries[0].Ref != ref {
		return "", fmt.Errorf("%d entries wait for a person: %v", len(review.Entries), err)
	}
	_, err = d.people.Resolve(ctx, by, ref, operator.Finding{Outcome: operator.FoundDelivered, Evidence: "the gateway's own log has the key"})
	if err != nil {
		return "", err
	}
	if review, err = d.people.Review(ctx, operator.ReviewFilter{}); err != nil || len(review.Entries) != 0 {
		return "", fmt.Errorf("%d entries wait after the finding: %v", len(review.Entries), err)
	}
	return "OUTCOME_UNKNOWN; sending it again was refused until somebody looked: the gateway's log says that it was sent", nil
}
