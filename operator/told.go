package operator

import (
	"github.com/consign-go/consign"
	"github.com/consign-go/consign/internal/driver"
)

// advice is what an entry means and what is left to do about it. What a person has
// found out or sent again by now goes before the code.
func (v *view) advice(gone bool, answer *driver.Logged) (means, do string) {
	s := &v.record.State
	told := Advice(s.Code)
	means, do = told.Means, told.Do
	if gone && s.Code == "" {
		means, do = stranded(uncertain(s)), "Redeliver, or record that it is abandoned."
		if uncertain(s) {
			do = Advice(consign.CodeOutcomeUnknown).Do
		}
	}
	if s.Code == consign.CodeRejected && answer != nil && answer.Proof != "" {
		means = "The far side said no, and has signed all the same that it executed this."
	}
	f := v.current()
	_, sent := v.successor()
	switch {
	case sent || v.sent != nil:
		do = "Nothing: it was sent again, and what is left to do is about the end of its chain."
	case f != nil && f.Finding != driver.FoundNotDelivered:
		do = "Nothing: the finding settles it. Where that is wrong, supersede it by another."
	case answer != nil && answer.Proof != "":
		do = "The receiver signed that it executed this: accept its proof as the finding."
	case answer != nil:
		do = "A success was observed late: accept that evidence as the finding."
	case v.foundAgainst() != nil:
		do = "Do not send it again: see what was found about the others of its chain, and record that about this one where it waits."
	case f != nil && !incurable[s.Code]:
		do = "It was found not delivered. Reissue it if it is still wanted."
	case f == nil && uncertain(s) && s.Code != "" && s.Code != consign.CodeOutcomeUnknown && s.Status.Terminal():
		do = uncertainFirst + told.Do
	}
	return means, do
}

// stranded says what is known about a message whose process is gone.
func stranded(uncertain bool) string {
	if uncertain {
		return "The process that was sending it is gone, or never said how it ended. An effect may have happened."
	}
	return "The process that was sending it is gone. It was waiting between two attempts: nothing was in flight."
}
