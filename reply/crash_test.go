package reply_test

import (
	"bufio"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/reply"
)

// doomedVariable makes this test binary the program that is killed: its value is the
// address of the database.
const doomedVariable = "CONSIGN_REPLY_DOOMED"

// A program that is killed with a claim in its hands loses the reply: it shows as
// delivering, no sweep or claim hands it out again, and it is in review when the
// lease is over. A fresh reply, one whose claim crashed and one whose budget is used
// up are told apart. What comes after it in its turn waits for the lease, no longer.
func TestKilledWithAClaimStrandsTheReply(t *testing.T) {
	onEveryStore(t, reply.Options{}, func(t *testing.T, h *host) {
		first := h.create(answer(in("turn", 0)))
		next := h.create(answer(in("turn", 1)))
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(self)
		cmd.Env = append(os.Environ(), doomedVariable+"="+h.address)
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		line, err := bufio.NewReader(out).ReadString('\n')
		cmd.Process.Kill()
		cmd.Wait()
		if err != nil || strings.TrimSpace(line) != first.ID.String() {
			t.Fatalf("the program claimed %q, %v; want %s", line, err, first.ID)
		}

		if r := h.find(first.ID); r.Status != consign.StatusDelivering || r.Attempts != 0 {
			t.Errorf("shows %+v", r)
		}
		if list := h.pending(); len(list) != 1 || list[0].ID != next.ID {
			t.Errorf("pending %+v", list)
		}
		h.lost("before it in its turn, one is being delivered", next.ID)
		const review = "SELECT CAST(count(*) AS text) FROM {s}delivery WHERE review_at < "
		now := "clock_timestamp()"
		if strings.HasPrefix(h.address, "sqlite") {
			now = "unixepoch() * 1000000"
		}
		if n := h.text(review + now); n != "0" {
			t.Error("in review before its lease is over")
		}
		h.leaseOver()
		if n := h.text(review + now); n != "1" {
			t.Error("not in review when its lease is over")
		}
		h.lost("stranded", first.ID)
		served := h.messages(consign.Options{Channels: []consign.Channel{{Name: "relay", Deliver: never(t)}}})
		if got, err := served.Visit(t.Context(), first.ID); err != nil || got.Status != consign.StatusDelivering {
			t.Errorf("a visit of the stranded one: %+v, %v", got, err)
		}
		if r := h.find(first.ID); r.Status != consign.StatusDelivering {
			t.Errorf("became %+v", r)
		}
		h.claim(next.ID)
	})
}
