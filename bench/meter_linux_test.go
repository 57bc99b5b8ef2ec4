package bench

import (
	"os/exec"
	"testing"
	"time"
)

// The time of a process that ends while the server's are read is neither lost nor
// counted twice: what is spent never falls.
func TestServerTimeNeverFalls(t *testing.T) {
	script := `n=0; while [ $n -lt 40 ]; do n=$((n+1)); (i=0; while [ $i -lt 10000 ]; do i=$((i+1)); done) & [ $((n%4)) -eq 0 ] && wait; done; wait; read x`
	cmd := exec.Command("sh", "-c", script)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer in.Close()
	alive := func() bool {
		f := processStat(cmd.Process.Pid)
		return len(f) > 0 && f[0] != "Z"
	}
	var last time.Duration
	for reads := 0; reads < 300 && alive(); reads++ {
		now := serverTime(cmd.Process.Pid)
		if now < last {
			t.Fatalf("%s were spent, and then %s", last, now)
		}
		last = now
	}
	if last == 0 {
		t.Error("nothing was spent")
	}
}
