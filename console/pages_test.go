package console

import (
	"context"
	"errors"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/approval"
	"github.com/consign-go/consign/internal/scene"
	"github.com/consign-go/consign/operator"
)

// TestUnknownIsNeverShownAsFailed: on no page is an outcome that nobody knows called
// failed or not delivered, whatever its status is called.
func TestUnknownIsNeverShownAsFailed(t *testing.T) {
	d := open(t, Options{})
	d.Unknown(d.Message("mail", scene.Once))
	d.Unknown(d.Work("triaged", scene.Once))
	ref := d.Stranded("loop")
	anna := d.person("anna")
	for _, page := range []string{"/", "/intents", "/intents?status=failed", "/review", "/review/all", "/intents/" + ref.String(), "/kinds"} {
		a := anna.get(page)
		d.want(a, 200)
		text := a.body
		for _, may := range []string{ // what says that it is not known to be so
			"It was not delivered: the far side says so", "delivered, not delivered, abandoned", "was not delivered, or its outcome is unknown",
			"reissue what was not delivered", `value="failed"`, `value="not-delivered"`, "status=failed", ":failed",
			"only after a current finding", "not-delivered",
		} {
			text = strings.ReplaceAll(text, may, "")
		}
		for _, wrong := range []string{"failed", "not delivered", "undelivered"} {
			if i := strings.Index(text, wrong); i >= 0 {
				t.Errorf("%s says %q: …%s…", page, wrong, text[max(0, i-80):min(len(text), i+80)])
			}
		}
	}
	d.want(anna.get("/review"), 200, "outcome unknown")
	for s, want := range map[operator.Summary]string{
		{Status: consign.StatusFailed, Known: operator.KnownNot}:                                          "failed, not delivered",
		{Status: consign.StatusFailed, Known: operator.KnownNothing, Uncertain: true}:                     "outcome unknown",
		{Status: consign.StatusReconciliationRequired, Known: operator.KnownNothing}:                      "outcome unknown",
		{Status: consign.StatusDelivering, Known: operator.KnownNothing, Uncertain: true}:                 "being delivered, an earlier outcome is unknown",
		{Status: consign.StatusDelivering, Known: operator.KnownNothing, Uncertain: true, Stranded: true}: "outcome unknown, stranded",
	} {
		if got := standingOf(s).Text; got != want {
			t.Errorf("%+v is shown as %q, want %q", s, got, want)
		}
	}
}

// TestOverviewTellsWhatIsWrongAndWhatToDo: what waits, what is paused, what nobody
// serves, and how it went lately.
func TestOverviewTellsWhatIsWrongAndWhatToDo(t *testing.T) {
	t.Run("sqlite", func(t *testing.T) { overviewTells(t, open(t, Options{})) })
	t.Run("postgres", func(t *testing.T) { overviewTells(t, onPostgres(t, Options{})) })
}

func overviewTells(t *testing.T, d *desk) {
	vera := d.person("vera")
	d.want(vera.get("/"), 200, "Nothing waits for a person", "There are no intents yet")
	d.Message("mail", scene.Once)
	d.Unknown(d.Work("triaged", scene.Once))
	d.Delivered(d.Message("chat", scene.Twice))
	d.ServeMessage("chat", scene.Twice)
	if err := d.operator.Pause(t.Context(), operator.By{Who: "olga", Why: "far side is down"}, consign.ProfileMessage, "chat"); err != nil {
		t.Fatal(err)
	}
	a := vera.get("/")
	d.want(a, 200, "Waiting for a person: 1", "no live program serves it: message “mail”", "Paused: message “chat”, by olga", "far side is down",
		"<polyline", "message, delivered", "1 of those created within 60 min")
}

// TestIntentsAreFilteredAndPaged: by status, kind, channel, subject, age and code.
func TestIntentsAreFilteredAndPaged(t *testing.T) {
	t.Run("sqlite", func(t *testing.T) { filteredAndPaged(t, open(t, Options{})) })
	t.Run("postgres", func(t *testing.T) { filteredAndPaged(t, onPostgres(t, Options{})) })
}

func filteredAndPaged(t *testing.T, d *desk) {
	d.Subject = "customer:7"
	seven := d.Rejected(d.Message("mail", scene.Once))
	d.Subject = ""
	unknown := d.Unknown(d.Work("triaged", scene.Once))
	for range pageSize {
		d.Message("chat", scene.Once)
	}
	vera := d.person("vera")
	for query, want := range map[string][]consign.Ref{
		"status=failed": {seven}, "kind=triaged": {unknown}, "code=OUTCOME_UNKNOWN": {unknown}, "subject=customer:7": {seven},
		"status=reconciliation_required&age=1h": {unknown}, "kind=mail&age=older-1d": {}, "profile=work": {unknown},
	} {
		a := vera.get("/intents?" + query)
		d.want(a, 200)
		if n := strings.Count(a.body, `<th scope="row">`); n != len(want) {
			t.Errorf("%s lists %d, want %d", query, n, len(want))
		}
		for _, ref := range want {
			d.want(a, 200, "/intents/"+ref.String())
		}
	}
	first := vera.get("/intents")
	d.without(first, "Only a part of the records")
	next := strings.Index(first.body, `rel="next" href="`)
	if next < 0 || strings.Count(first.body, `<th scope="row">`) != pageSize {
		t.Fatalf("no next page after %d", strings.Count(first.body, `<th scope="row">`))
	}
	link, _, _ := strings.Cut(first.body[next+len(`rel="next" href="`):], `"`)
	second := vera.get(strings.TrimPrefix(link, "/ops/consign"))
	d.want(second, 200, seven.String(), "First page")
	if n := strings.Count(second.body, `<th scope="row">`); n != 2 {
		t.Errorf("the second page lists %d", n)
	}
	d.want(vera.get("/intents?ref="+seven.String()), 200, "Intent "+seven.String())
	d.want(vera.get("/intents?ref=nonsense"), 422, "That is no ref")
	d.want(vera.get("/intents?kind="+strings.Repeat("x", 200)), 422, "limit")
	d.want(vera.get("/intents?after=nonsense"), 422, "after")
	d.want(vera.get("/intents/"+consign.NewRef().String()), 404, "nothing under this name")
	d.want(vera.get("/intents/nonsense"), 404)
}

// TestIntentShowsAllThatIsKnownAndWhatMayBeDone: timeline, contract, digest, and why
// other actions may not be taken.
func TestIntentShowsAllThatIsKnownAndWhatMayBeDone(t *testing.T) {
	d := open(t, Options{})
	ref := d.Late(d.Unknown(d.Work("triaged", scene.Once)))
	a := d.person("otto").get("/intents/" + ref.String())
	d.want(a, 200, "outcome unknown", "OUTCOME_UNKNOWN", "success observed", "came late", "started", "created, committed with its transaction",
		"connection refused", "Digest of the bound request", "Fingerprint", "is not harmless", "3 at most", "The question is answered",
		"Record the finding", "Not possible:", "Delivery key", ref.String())
	d.without(a, "hello", "staff:")
	v := d.person("vera").get("/intents/" + ref.String())
	d.want(v, 200, "your role does not allow it")
	d.without(v, "Record the finding", "Accept the evidence")
}

// TestFindingIsRecordedFromTheQueue: evidence first, one at a time, oldest first.
func TestFindingIsRecordedFromTheQueue(t *testing.T) {
	d := open(t, Options{})
	first, second := d.Unknown(d.Message("mail", scene.Once)), d.Unknown(d.Message("mail", scene.Once))
	otto := d.person("otto")
	d.want(otto.get("/review"), 200, first.String(), "Skip to the next")
	a := otto.act("/review", "/intents/"+first.String()+"/resolve", url.Values{
		"outcome": {"not-delivered"}, "evidence": {"their log:\r\nno such key"}, "from": {"review"}, "after": {""},
	})
	d.want(a, 200, "Your finding is recorded", second.String(), "/intents/"+first.String())
	e, err := d.operator.Show(t.Context(), first)
	if err != nil || e.Current == nil || e.Current.Evidence != "their log:\nno such key" || e.Current.By != "otto" {
		t.Errorf("recorded %+v, %v", e.Current, err)
	}
	d.want(otto.get("/intents/"+first.String()), 200, "found not delivered", "outcome unknown", "It corrects the present finding")
	a = otto.act("/review", "/intents/"+second.String()+"/resolve", url.Values{"outcome": {"delivered"}, "evidence": {""}, "why": {"a reason"}})
	d.want(a, 422, "evidence: 0 bytes", "Nothing was written", `value="a reason"`, `value="delivered" required data-key="1" checked`)
	a = otto.act("/review", "/intents/"+second.String()+"/resolve", url.Values{
		"outcome": {"delivered"}, "evidence": {"they have it"}, "from": {"review"}, "after": {""},
	})
	d.want(a, 200, "Nothing waits for a person")
}

// signatures checks nothing but what it was told to take for signed.
type signatures map[string]string // by delivery key

func (s signatures) CheckProof(_ context.Context, channel string, p consign.Proof) (string, error) {
	if signed := s[p.Key]; channel == "mail" && signed != "" && p.Text == signed && p.Digest != [32]byte{} {
		return signed, nil
	}
	return "", errors.New("nothing in it is signed")
}

// TestProofIsHandedIn: what holds is the finding, what does not changes nothing and
// stays in the form, and where there are no keys that is said.
func TestProofIsHandedIn(t *testing.T) {
	d := open(t, Options{})
	ref := d.Unknown(d.Message("mail", scene.Once))
	d.want(d.person("otto").get("/intents/"+ref.String()), 200, "Hand in a proof", "this console knows no keys to check proofs with")

	known := signatures{}
	d = open(t, Options{Proofs: known})
	ref = d.Unknown(d.Message("mail", scene.Once))
	e, err := d.operator.Show(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	known[e.DeliveryKey.String()] = "v1,c2lnbmVk"
	page := "/intents/" + ref.String()
	otto := d.person("otto")
	a := otto.act(page, page+"/prove", url.Values{"proof": {"v1,Zm9yZ2Vk"}, "why": {"asked them"}})
	d.want(a, 409, "the proof is not accepted: nothing in it is signed", "Nothing was written", ">v1,Zm9yZ2Vk</textarea>", `value="asked them"`)
	d.want(otto.act(page, page+"/prove", url.Values{"proof": {""}}), 422, "proof: 0 bytes")
	d.want(d.person("vera").act(page, page+"/prove", url.Values{"proof": {"v1,c2lnbmVk"}}), 403)
	if got := d.audited(); len(got) != 0 {
		t.Fatalf("done: %v", got)
	}
	d.want(otto.act(page, page+"/prove", url.Values{"proof": {"v1,c2lnbmVk\r\n"}}), 200, "The proof holds", "finding from proof", "found delivered", "outcome unknown")
	a = otto.act(page, page+"/prove", url.Values{"proof": {"v1,c2lnbmVk"}}) // a double click
	d.want(a, 409, "It has a finding of yours already", "Nothing more was written")
	d.without(a, "Somebody else")
	work := d.Unknown(d.Work("triaged", scene.Once))
	d.want(otto.get("/intents/"+work.String()), 200, "a receiver signs the body alone")
}

// TestProofAgainstACertainNoLeavesItUnknown, on its page and in lists.
func TestProofAgainstACertainNoLeavesItUnknown(t *testing.T) {
	known := signatures{}
	d := open(t, Options{Proofs: known})
	ref := d.Rejected(d.Message("mail", scene.Once))
	known[ref.String()] = "v1,c2lnbmVk"
	page, otto := "/intents/"+ref.String(), d.person("otto")
	d.want(otto.get("/intents"), 200, "failed, not delivered")
	d.want(otto.act(page, page+"/prove", url.Values{"proof": {"v1,c2lnbmVk"}}), 200, "The proof holds", "outcome unknown")
	for _, path := range []string{page, "/intents"} {
		d.want(otto.get(path), 200, "outcome unknown")
		d.without(otto.get(path), "failed, not delivered")
	}
}

// TestLateEvidenceIsAcceptedOverAFinding: the form says what it corrects.
func TestLateEvidenceIsAcceptedOverAFinding(t *testing.T) {
	d := open(t, Options{})
	ref := d.Unknown(d.Message("mail", scene.Once))
	page, otto := "/intents/"+ref.String(), d.person("otto")
	d.want(otto.act(page, page+"/resolve", url.Values{"outcome": {"not-delivered"}, "evidence": {"no such key"}}), 200, "Your finding is recorded")
	d.Proven(ref, "v1,c2lnbmVk")
	a := otto.get(page)
	d.want(a, 200, "Accept the proof", "It corrects the present finding")
	found := regexp.MustCompile(`name="supersedes" value="([^"]+)"`).FindStringSubmatch(a.body)
	d.want(otto.act(page, page+"/accept", url.Values{}), 409, "supersede finding")
	d.want(otto.act(page, page+"/accept", url.Values{"supersedes": {found[1]}}), 200, "The evidence is recorded as the finding", "finding from proof")
	d.without(otto.get(page), "Accept the proof")
}

// TestAddressesClaimNothing: that something was done is said where it is to be seen,
// whatever the address of the page says.
func TestAddressesClaimNothing(t *testing.T) {
	d := open(t, Options{})
	ref := d.Unknown(d.Message("mail", scene.Once))
	page, otto := "/intents/"+ref.String(), d.person("otto")
	for _, what := range []string{"resolve", "accept", "prove", "redeliver", "reissue", "cancel", "pause", "confirm"} {
		for _, path := range []string{page + "?done=" + what, "/review?done=" + what + "&was=" + ref.String()} {
			a := otto.get(path)
			d.want(a, 200)
			d.without(a, done(what).Text)
		}
	}
	d.want(otto.act(page, page+"/resolve", url.Values{"outcome": {"abandoned"}, "evidence": {"x"}}), 200, done("resolve").Text)
	d.want(otto.get("/review?done=resolve&was="+ref.String()), 200, done("resolve").Text, "Open it")
	d.without(otto.get(page+"?done=prove"), done("prove").Text)
	d.without(d.person("olga").get(page+"?done=resolve"), done("resolve").Text)
}

// TestProofThatCameLateLeadsTheEntry: before other evidence, as what it is.
func TestProofThatCameLateLeadsTheEntry(t *testing.T) {
	d := open(t, Options{})
	ref := d.Proven(d.Unknown(d.Message("mail", scene.Once)), "v1,c2lnbmVk")
	otto := d.person("otto")
	d.want(otto.get("/review"), 200, "The receiver signed that it executed this request", "Accept the proof", "v1,c2lnbmVk", "This answers the question")
	d.want(otto.get("/review/all"), 200, "signed by the receiver")
	page := "/intents/" + ref.String()
	d.want(otto.get(page), 200, "Its proof can be accepted", "signed by the receiver", "v1,c2lnbmVk")
	d.want(otto.act(page, page+"/accept", url.Values{}), 200, "The evidence is recorded as the finding", "finding from proof")
}

// TestOfTwoPeopleOneWinsAndTheOtherIsTold: nothing that the second one writes is lost.
func TestOfTwoPeopleOneWinsAndTheOtherIsTold(t *testing.T) {
	t.Run("sqlite", func(t *testing.T) { twoPeople(t, open(t, Options{})) })
	t.Run("postgres", func(t *testing.T) { twoPeople(t, onPostgres(t, Options{})) })
}

func twoPeople(t *testing.T, d *desk) {
	ref := d.Unknown(d.Message("mail", scene.Once))
	page := "/intents/" + ref.String()
	otto, olga := d.person("otto"), d.person("olga")
	forms := map[*person]url.Values{}
	for _, p := range []*person{otto, olga} {
		forms[p] = url.Values{
			"token": {tokenIn(p.get(page).body)}, "outcome": {"not-delivered"}, "evidence": {"what I found"}, "why": {"looked"},
		}
	}
	d.want(otto.post(page+"/resolve", forms[otto]), 200, "Your finding is recorded")
	d.want(olga.post(page+"/resolve", forms[olga]), 409, "Somebody else was first", "by <bdi>otto</bdi>", "what I found")
	d.ServeMessage("mail", scene.Once)
	d.want(otto.act(page, page+"/reissue", url.Values{}), 200, "this is the new intent", "reissue")
	d.want(olga.post(page+"/reissue", url.Values{"token": forms[olga]["token"], "why": {"x"}}), 409, "Nothing was written")
	if got := strings.Join(d.audited(), ", "); got != "otto resolve, otto reissue" {
		t.Errorf("audited %s", got)
	}
}

// TestContentIsShownToWhomItMayAndAudited: to nobody else, and never without a trace.
func TestContentIsShownToWhomItMayAndAudited(t *testing.T) {
	d := open(t, Options{})
	d.Text, d.Subject = "the secret text", "customer:9"
	ref := d.Message("mail", scene.Once)
	page := "/intents/" + ref.String()
	anna, otto := d.person("anna"), d.person("otto")
	for _, p := range []*person{anna, otto} {
		for _, path := range []string{"/", "/intents", page, "/kinds", "/audit"} {
			d.without(p.get(path), "the secret text", "customer:9")
		}
	}
	d.want(otto.act(page, page+"/content", url.Values{}), 403, "permission “content”")
	if got := d.audited(); len(got) != 0 {
		t.Errorf("audited %v", got)
	}
	d.want(anna.act(page, page+"/content", url.Values{"why": {""}}), 422)
	d.want(anna.act(page, page+"/content", url.Values{"why": {"the customer asked"}}), 200, "the secret text", "customer:9")
	d.want(anna.get("/audit?ref="+ref.String()), 200, "read", "anna", "the customer asked")
	d.want(anna.get("/intents?ref="+ref.String()), 200, "the customer asked")
}

// TestBulkIsPreviewedThenConfirmed: what has changed since the preview is not done.
func TestBulkIsPreviewedThenConfirmed(t *testing.T) {
	d := open(t, Options{})
	d.ServeMessage("mail", scene.Once)
	refs := []consign.Ref{d.Rejected(d.Message("mail", scene.Once)), d.Rejected(d.Message("mail", scene.Once)), d.Unknown(d.Message("mail", scene.Once))}
	chosen := url.Values{"act": {"redeliver"}}
	for _, ref := range refs {
		chosen.Add("ref", ref.String())
	}
	anna := d.person("anna")
	preview := anna.act("/intents?status=failed", "/bulk/preview", chosen)
	d.want(preview, 200, "Nothing was done yet", "Possible: 2", "Not possible: 1", "Redeliver: 2")
	if got := d.audited(); len(got) != 0 {
		t.Errorf("the preview did %v", got)
	}
	form := url.Values{"token": {tokenIn(preview.body)}, "act": {"redeliver"}, "why": {"far side is back"}}
	for _, part := range strings.Split(preview.body, `name="seen" value="`)[1:] {
		seen, _, _ := strings.Cut(part, `"`)
		form.Add("seen", seen)
	}
	if _, err := d.operator.Redeliver(t.Context(), operator.By{Who: "olga", Why: "first"}, refs[0]); err != nil {
		t.Fatal(err)
	}
	done := anna.post("/bulk/confirm", form)
	d.want(done, 200, "What became of each", "new intent")
	if n := strings.Count(done.body, "new intent"); n != 1 {
		t.Errorf("%d were sent again", n)
	}
	if got := strings.Join(d.audited(), ", "); got != "olga redeliver, anna redeliver" {
		t.Errorf("audited %s", got)
	}
	d.want(d.person("otto").act("/intents", "/bulk/preview", chosen), 403)
	d.want(anna.act("/intents?status=failed", "/bulk/preview", url.Values{"act": {"redeliver"}}), 422, "chosen")
	d.want(anna.act("/intents?status=failed", "/bulk/preview", url.Values{"act": {"erase"}, "ref": {refs[0].String()}}), 422)
	late := d.Late(d.Unknown(d.Message("chat", scene.Once)))
	preview = anna.act("/review/all", "/bulk/preview", url.Values{"act": {"accept"}, "ref": {late.String(), refs[2].String()}})
	d.want(preview, 200, "Possible: 1", "nothing in the log answers")
	_, seen, _ := strings.Cut(preview.body, `name="seen" value="`)
	seen, _, _ = strings.Cut(seen, `"`)
	d.want(anna.act("/review/all", "/bulk/confirm", url.Values{"act": {"accept"}, "seen": {late.String() + "@1"}}), 200, "✕", "changed meanwhile")
	d.want(anna.act("/review/all", "/bulk/confirm", url.Values{"act": {"accept"}, "seen": {seen}}), 200, "✓")
	d.want(anna.get("/intents/"+late.String()), 200, "found delivered")
}

// TestKindsArePausedAndResumed: with contract, fingerprint and who paused them why.
func TestKindsArePausedAndResumed(t *testing.T) {
	d := open(t, Options{})
	d.ServeWork("triaged", scene.Once)
	otto, olga := d.person("otto"), d.person("olga")
	d.want(otto.get("/kinds"), 200, "triaged", "Fingerprint", "1m", "Pause")
	form := url.Values{"profile": {"work"}, "kind": {"triaged"}, "why": {"far side is down"}}
	d.want(otto.act("/kinds", "/kinds/pause", form), 200, "It is paused", "far side is down", "Resume")
	d.want(olga.act("/kinds", "/kinds/pause", form), 409, "otto has paused it")
	d.want(olga.act("/kinds", "/kinds/resume", form), 200, "It is resumed")
	d.want(otto.act("/kinds", "/kinds/resume", form), 409, "it is not paused")
	d.want(d.person("vera").act("/kinds", "/kinds/pause", form), 403)
}

// TestApprovalsAreDecidedOnce: what it would do is looked at first, and that is audited.
func TestApprovalsAreDecidedOnce(t *testing.T) {
	d := open(t, Options{})
	propose := func(proposer consign.Entity, policy consign.ApprovalPolicy) consign.ID {
		return d.propose(approval.Proposal{
			Admission: consign.Admission{
				Operation: consign.Operation{Name: "refund", Approval: policy}, Actor: consign.Entity{Type: "staff", ID: "7"}, Tenant: consign.Entity{Type: "tenant", ID: "3"},
				Target: consign.Entity{Type: "order", ID: "41"}, Input: map[string]any{"amount": 120},
			},
			Proposer: proposer, Reason: "the customer complained", TTL: time.Hour,
		})
	}
	agent := consign.Entity{Type: "agent", ID: "triage"}
	id := propose(agent, consign.AnyConfirmer)
	otto, olga := d.person("otto"), d.person("olga")
	page := "/approvals/" + id.String()
	d.want(otto.get("/approvals"), 200, "refund", "agent:triage", "the customer complained")
	a := otto.get(page)
	d.want(a, 200, "Show it", "Look at what it would do", "Dismiss")
	d.without(a, "120", ">Confirm<")
	d.want(otto.act(page, page+"/input", url.Values{}), 200, "120", ">Confirm<")
	d.want(otto.act(page, page+"/confirm", url.Values{"why": {"fine"}}), 200, "The approval is confirmed", "No approval waits")
	d.want(olga.act(page, page+"/dismiss", url.Values{"why": {"not fine"}}), 409, "it was confirmed already", "user:otto")
	own := propose(consign.Entity{Type: "user", ID: "otto"}, consign.OtherConfirmer)
	d.want(otto.act("/approvals/"+own.String(), "/approvals/"+own.String()+"/confirm", url.Values{}), 409, "whoever proposed it may not confirm it")
	d.want(olga.act("/approvals/"+own.String(), "/approvals/"+own.String()+"/dismiss", url.Values{}), 200, "The approval is dismissed")
	if got := strings.Join(d.audited(), ", "); !strings.Contains(got, "otto read") {
		t.Errorf("audited %s", got)
	}
}

// TestCancelStopsWhatIsNotInFlight says so where it was too late.
func TestCancelStopsWhatIsNotInFlight(t *testing.T) {
	d := open(t, Options{})
	pending, started := d.Message("mail", scene.Once), d.Start(d.Message("mail", scene.Once))
	otto := d.person("otto")
	page := "/intents/" + pending.String()
	d.want(otto.act(page, page+"/cancel", url.Values{}), 200, "It is stopped", "failed, not delivered", "CANCELLED_BY_OPERATOR")
	page = "/intents/" + started.String()
	d.want(otto.act(page, page+"/cancel", url.Values{}), 409, "Not possible")
}
