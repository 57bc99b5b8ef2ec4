package operator_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
	"github.com/consign-go/consign/operator"
	"github.com/consign-go/consign/webhook"
	"github.com/consign-go/consign/webhook/receive"
)

// proofKey is a secret that both ends share, made of one letter.
func proofKey(h *host, letter string) webhook.Key {
	h.Helper()
	k, err := webhook.ParseKey("whsec_" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat(letter, 32))))
	h.ok(err)
	return k
}

// signed is what a receiver with such a key signs about a delivery key and a digest.
func (h *host) signed(letter string, key consign.ID, digest [32]byte) string {
	h.Helper()
	v, err := receive.NewVerifier(receive.Options{Keys: []receive.Key{proofKey(h, letter)}, Proofs: []receive.Key{proofKey(h, letter)}})
	h.ok(err)
	return v.Proof(receive.Delivery{Key: key.String(), Digest: digest})
}

// checker is a program with the channel mail, whose receiver signs with that key, and
// the channel bare, of whose receiver no keys are known.
func (h *host) checker(letter string) operator.Checker {
	h.Helper()
	way := func(name string, proofs ...webhook.Key) consign.Channel {
		e, err := webhook.New(webhook.Options{
			URL: "https://crm.example/hook", Credentials: webhook.Credentials{Keys: []webhook.Key{proofKey(h, "k")}, Proofs: proofs},
			Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")},
		})
		h.ok(err)
		return e.Channel(name)
	}
	deaf := consign.Channel{Name: "deaf"}
	return h.program(way("mail", proofKey(h, "x"), proofKey(h, letter)), way("bare"), deaf).(operator.Checker)
}

// A proof that somebody got from the receiver becomes a finding once it holds for this
// delivery key and this request, and one that does not hold changes nothing.
func TestProofThatIsHandedInIsChecked(t *testing.T) {
	onEveryStore(t, func(h *host) {
		ref := h.unknown(message("mail", once))
		e, c := h.show(ref), h.checker("p")
		before := h.text()
		for what, proof := range map[string]string{
			"by another key":        h.signed("s", e.DeliveryKey, e.Digest),
			"for another key":       h.signed("p", consign.NewRef().ID, e.Digest),
			"for another body":      h.signed("p", e.DeliveryKey, sha256.Sum256([]byte("{}"))),
			"a word":                "delivered",
			"a signature cut short": h.signed("p", e.DeliveryKey, e.Digest)[:30],
		} {
			_, err := h.ann.AcceptProof(h.ctx, ann, ref, operator.Signed{Proof: proof}, c)
			h.refusal(what, err, "is signed by one of the receiver's keys")
		}
		valid := h.signed("p", e.DeliveryKey, e.Digest)
		for what, bad := range map[string]operator.Signed{
			"none": {}, "blank": {Proof: " \n"}, "too long": {Proof: strings.Repeat("v", 2049)}, "not ASCII": {Proof: "v1,é"}, "a NUL": {Proof: "v1,\x00"},
		} {
			_, err := h.ann.AcceptProof(h.ctx, ann, ref, bad, c)
			h.is(what, err, consign.ErrInvalid)
		}
		_, err := h.ann.AcceptProof(h.ctx, operator.By{Who: "ann"}, ref, operator.Signed{Proof: valid}, c)
		h.is("without a reason", err, consign.ErrInvalid)
		_, err = h.ann.AcceptProof(h.ctx, ann, ref, operator.Signed{Proof: valid}, nil)
		h.refusal("no keys at all", err, "knows no keys")
		if h.text() != before {
			h.Error("a proof that does not hold changed something")
		}

		// What else stands beside it is not kept: nobody can type a proof in.
		f, err := h.ann.AcceptProof(h.ctx, ann, ref, operator.Signed{Proof: "\n v1,bm90aGluZw==\r\n" + valid + " delivered-says-ann \r\n"}, c)
		h.ok(err)
		if f.Outcome != operator.FoundDelivered || f.Source != "proof" || f.By != "ann" ||
			!strings.HasSuffix(f.Evidence, "signed "+valid) || !strings.Contains(f.Evidence, e.DeliveryKey.String()) || strings.Contains(f.Evidence, "says") {
			h.Errorf("finding %+v", f)
		}
		after := h.show(ref)
		if after.Status != e.Status || after.Known != operator.KnownNothing || !after.Uncertain || len(h.review()) != 0 || *after.Current != f {
			h.Errorf("after: %+v", after)
		}
		rows, err := h.ann.Audit(h.ctx, operator.AuditFilter{Ref: ref})
		h.ok(err)
		if len(rows) != 1 || rows[0].By != "ann" || rows[0].Why != ann.Why || !strings.Contains(strings.ReplaceAll(string(rows[0].After), " ", ""), `"source":"proof"`) {
			h.Errorf("audited %+v", rows)
		}
		if _, err := h.bob.Reissue(h.ctx, bob, ref); !errors.Is(err, operator.ErrRefused) {
			h.Errorf("what is proven was sent again: %v", err)
		}
	})
}

// Where there is nothing to check a proof against, that is said.
func TestProofNeedsKeysAndABoundRequest(t *testing.T) {
	onEveryStore(t, func(h *host) {
		c := h.checker("p")
		hand := func(ref consign.Ref) error {
			e := h.show(ref)
			_, err := h.ann.AcceptProof(h.ctx, ann, ref, operator.Signed{Proof: h.signed("p", e.DeliveryKey, e.Digest)}, c)
			return err
		}
		h.refusal("no keys of this channel", hand(h.unknown(message("bare", once))), "no keys are known")
		h.refusal("a channel without checks", hand(h.unknown(message("deaf", once))), "no way to check")
		h.refusal("an unknown channel", hand(h.unknown(message("fax", once))), "does not know the channel")
		h.refusal("work", hand(h.unknown(work("triaged", once))), "the body alone")
		pending := message("mail", once)
		h.put(pending)
		h.refusal("open", hand(refOf(pending)), "open")
		delivered := h.start(message("mail", once))
		h.happen(delivered, is(lifecycle.EvSucceeded))
		h.refusal("delivered", hand(delivered), "success")
		cancelled := message("mail", once)
		h.put(cancelled)
		_, err := h.ann.Cancel(h.ctx, ann, refOf(cancelled))
		h.ok(err)
		h.refusal("never started", hand(refOf(cancelled)), "never started")
		_, err = h.ann.AcceptProof(h.ctx, ann, consign.NewRef(), operator.Signed{Proof: "v1,x"}, c)
		h.is("unknown ref", err, consign.ErrNotFound)
		h.ok(hand(h.strand(message("mail", looped))))
	})
}

// The receiver knows better than a record that says for certain that nothing was
// executed, and better than a person who found otherwise.
func TestProofStandsAgainstTheRecordAndAgainstFindings(t *testing.T) {
	onEveryStore(t, func(h *host) {
		c := h.checker("p")
		proof := func(ref consign.Ref) string { e := h.show(ref); return h.signed("p", e.DeliveryKey, e.Digest) }
		certain := h.rejected(message("mail", once))
		_, err := h.ann.AcceptProof(h.ctx, ann, certain, operator.Signed{Proof: proof(certain)}, c)
		h.ok(err)
		if e := h.show(certain); e.Status != consign.StatusFailed || e.Uncertain || e.Current.Source != "proof" {
			h.Errorf("the record changed: %+v", e)
		} else if e.Known != operator.KnownNothing || e.Chain[0].Known != operator.KnownNothing || h.known(certain) != operator.KnownNothing {
			h.Errorf("what the receiver has signed is called not delivered: %s, %s, %s", e.Known, e.Chain[0].Known, h.known(certain))
		}

		ref := h.unknown(message("mail", once))
		first, err := h.ann.Resolve(h.ctx, ann, ref, operator.Finding{Outcome: operator.FoundNotDelivered, Evidence: "no such key"})
		h.ok(err)
		_, err = h.bob.AcceptProof(h.ctx, bob, ref, operator.Signed{Proof: proof(ref)}, c)
		h.is("beside a finding", err, operator.ErrChanged)
		second, err := h.bob.AcceptProof(h.ctx, bob, ref, operator.Signed{Proof: proof(ref), Supersedes: first.ID}, c)
		h.ok(err)
		if e := h.show(ref); *e.Current != second || second.Supersedes != first.ID {
			h.Errorf("findings %+v", e.Resolutions)
		}

		both := h.unknown(message("mail", once))
		errs := together(
			func() error {
				_, err := h.ann.AcceptProof(h.ctx, ann, both, operator.Signed{Proof: proof(both)}, c)
				return err
			},
			func() error {
				_, err := h.bob.Resolve(h.ctx, bob, both, operator.Finding{Outcome: operator.FoundAbandoned, Evidence: "nobody knows"})
				return err
			},
		)
		if (errs[0] == nil) == (errs[1] == nil) || !errors.Is(errors.Join(errs...), operator.ErrChanged) {
			h.Errorf("of two one wins: %v", errs)
		}
		if n := len(h.show(both).Resolutions); n != 1 {
			h.Errorf("%d findings, want that of the winner alone", n)
		}
	})
}

// A proof that came with an answer too late leads the entry before any other evidence,
// and accepting it makes a finding whose source it is.
func TestLateProofLeadsAndIsAccepted(t *testing.T) {
	onEveryStore(t, func(h *host) {
		ref := h.unknown(message("mail", once))
		key := h.show(ref).DeliveryKey
		proof := h.signed("p", key, h.show(ref).Digest)
		for generation, text := range map[int64]string{7: "", 8: proof, 9: ""} {
			h.ok(h.store.Append(h.ctx, []driver.Logged{{Ref: driver.ID(ref.ID), Attempt: lifecycle.Attempt{
				Generation: generation, Number: 1, Outcome: lifecycle.Accepted, Code: lifecycle.Fenced, HTTPStatus: 200, Late: true, Proof: text,
			}}}))
		}
		page, err := h.ann.Review(h.ctx, operator.ReviewFilter{})
		h.ok(err)
		e := page.Entries[0]
		if e.Answer != operator.FoundDelivered || !e.Proven || e.Evidence[0].Proof != proof || !e.Evidence[0].Answers || e.Evidence[0].Generation != 8 ||
			!strings.Contains(e.Do, "signed") {
			h.Errorf("entry %+v", e)
		}
		f, err := h.ann.AcceptEvidence(h.ctx, ann, ref, consign.ID{})
		h.ok(err)
		if f.Outcome != operator.FoundDelivered || f.Source != "proof" || !strings.Contains(f.Evidence, proof) {
			h.Errorf("finding %+v", f)
		}
		if e := h.show(ref); e.Status != consign.StatusFailed || !e.Uncertain || len(h.review()) != 0 {
			h.Errorf("after: %+v", e.Summary)
		}

		// A final no that came with a proof says two things: it is not called certain.
		torn := h.start(message("mail", once))
		h.happen(torn, lifecycle.Event{Kind: lifecycle.EvRejected, HTTPStatus: 400, Proof: proof})
		if e := h.show(torn); e.Known != operator.KnownNothing || !e.Proven || !e.Uncertain || e.Status != consign.StatusFailed || !strings.Contains(e.Means, "all the same") {
			h.Errorf("torn: %+v", e)
		}
		if _, err := h.bob.Redeliver(h.ctx, bob, torn); !errors.Is(err, operator.ErrRefused) {
			h.Errorf("it was sent again: %v", err)
		}
		if got := h.review(); len(got) != 1 || got[0] != torn || h.known(torn) != operator.KnownNothing {
			h.Errorf("it does not wait for a person: %v, %s", got, h.known(torn))
		}
		found, err := h.ann.AcceptEvidence(h.ctx, ann, torn, consign.ID{})
		h.ok(err)
		_, err = h.bob.Resolve(h.ctx, bob, torn, operator.Finding{Outcome: operator.FoundNotDelivered, Evidence: "their bug", Supersedes: found.ID})
		h.is("a correction", err, nil)
	})
}

// What came late after somebody had found otherwise supersedes that, by its name.
func TestLateEvidenceSupersedesAFinding(t *testing.T) {
	onEveryStore(t, func(h *host) {
		ref := h.unknown(message("mail", once))
		first, err := h.ann.Resolve(h.ctx, ann, ref, operator.Finding{Outcome: operator.FoundNotDelivered, Evidence: "no such key"})
		h.ok(err)
		h.late(ref, 1, lifecycle.Accepted)
		_, err = h.bob.Reissue(h.ctx, bob, ref)
		h.refusal("what was observed late", err, "accept that evidence")
		_, err = h.bob.AcceptEvidence(h.ctx, bob, ref, consign.ID{})
		h.is("without naming the finding", err, operator.ErrChanged)
		second, err := h.bob.AcceptEvidence(h.ctx, bob, ref, first.ID)
		h.ok(err)
		if e := h.show(ref); *e.Current != second || second.Supersedes != first.ID || second.Outcome != operator.FoundDelivered {
			h.Errorf("findings %+v", e.Resolutions)
		}
	})
}

// A proof about the first of a chain holds for what was sent after it: nothing of the
// chain is sent again while a finding says that something of it was delivered.
func TestProofSpeaksForTheWholeChain(t *testing.T) {
	onEveryStore(t, func(h *host) {
		h.serves(servesMessage("mail", once))
		ref := h.unknown(message("mail", once))
		first, err := h.ann.Resolve(h.ctx, ann, ref, operator.Finding{Outcome: operator.FoundNotDelivered, Evidence: "no such key"})
		h.ok(err)
		sent, err := h.ann.Reissue(h.ctx, ann, ref)
		h.ok(err)
		h.ok(cancel(h)(h.ann, ann, sent.Ref))
		e := h.show(ref)
		proof := operator.Signed{Proof: h.signed("p", e.DeliveryKey, e.Digest), Supersedes: first.ID}
		found, err := h.bob.AcceptProof(h.ctx, bob, ref, proof, h.checker("p"))
		h.ok(err)
		_, err = h.ann.Reissue(h.ctx, ann, sent.Ref)
		h.refusal("the successor of what is proven", err, ref.String())
		_, err = h.ann.Redeliver(h.ctx, ann, sent.Ref)
		h.refusal("the successor of what is proven", err, "delivered")
		if e := h.show(sent.Ref); e.Current != nil || len(e.Resolutions) != 0 || e.Chain[0].Found != operator.FoundDelivered ||
			e.Chain[1].Found != "" || !strings.Contains(e.Do, "Do not send it again") {
			h.Errorf("the successor: %+v", e)
		}
		_, err = h.bob.Resolve(h.ctx, bob, ref, operator.Finding{Outcome: operator.FoundNotDelivered, Evidence: "their bug", Supersedes: found.ID})
		h.ok(err)
		_, err = h.ann.Reissue(h.ctx, ann, sent.Ref)
		h.is("once that was corrected", err, nil)
	})
}

// known is what a list says of ref.
func (h *host) known(ref consign.Ref) operator.Known {
	h.Helper()
	page, err := h.ann.List(h.ctx, operator.Filter{})
	h.ok(err)
	for _, s := range page.Entries {
		if s.Ref == ref {
			return s.Known
		}
	}
	return ""
}

// Proofs go with the intent that they are about.
func TestProofsAreErased(t *testing.T) {
	onEveryStore(t, func(h *host) {
		n := message("mail", once)
		n.Subject = "customer:1"
		ref := h.unknown(n)
		e := h.show(ref)
		proof := h.signed("p", e.DeliveryKey, e.Digest)
		h.ok(h.store.Append(h.ctx, []driver.Logged{{Ref: n.Ref, Attempt: lifecycle.Attempt{
			Generation: 1, Number: 1, Outcome: lifecycle.Accepted, Code: lifecycle.Fenced, Late: true, Proof: proof,
		}}}))
		_, err := h.ann.AcceptProof(h.ctx, ann, ref, operator.Signed{Proof: proof}, h.checker("p"))
		h.ok(err)
		if !strings.Contains(h.text(), proof) {
			h.Fatal("nothing to erase")
		}
		_, err = h.ann.Erase(h.ctx, ann, []string{"customer:1"})
		h.ok(err)
		if strings.Contains(h.text(), proof) {
			h.Error("a proof is left")
		}
		_, err = h.ann.AcceptProof(h.ctx, ann, ref, operator.Signed{Proof: proof}, h.checker("p"))
		h.is("once erased", err, consign.ErrNotFound)
	})
}

// loose is a channel's check that says too little or too much.
type loose string

func (l loose) CheckProof(context.Context, string, consign.Proof) (string, error) {
	return string(l), nil
}

func TestChannelMustSayWhatIsSigned(t *testing.T) {
	onEveryStore(t, func(h *host) {
		ref := h.unknown(message("mail", once))
		for _, says := range []loose{"", "v1,\x00", "é", loose(strings.Repeat("v", 2049))} {
			_, err := h.ann.AcceptProof(h.ctx, ann, ref, operator.Signed{Proof: "v1,x"}, says)
			h.refusal("a loose check", err, "does not say")
		}
	})
}
