//go:build unix

package dispatchtest

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// arrival is a request as the far side saw it.
type arrival struct {
	key        string
	digest     string // SHA-256 of the bytes that came
	claimed    string // what the sender says it is
	number     int
	generation int64
	worker     string // the process that sent it
	at         time.Time
	whole      bool // all of it came
	acted      bool // the far side acted on it
}

// receiver is the far side: a server on a loopback socket with its own log.
type receiver struct {
	server *httptest.Server

	mu      sync.Mutex
	log     []arrival
	refuse  map[string]int           // by key: how many requests are refused first
	holding map[string]chan struct{} // by key: answers wait for this
	takes   time.Duration            // an answer
	forgets bool                     // keeps no log
	busy    int                      // requests that were not answered yet
}

func newReceiver(t *testing.T) *receiver {
	f := &receiver{refuse: map[string]int{}, holding: map[string]chan struct{}{}}
	f.server = httptest.NewServer(f)
	t.Cleanup(f.server.Close)
	return f
}

// place is the address to connect to.
func (f *receiver) place() string { return strings.TrimPrefix(f.server.URL, "http://") }

// ServeHTTP notes a request, acts on it unless it is told to refuse, and answers.
func (f *receiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.work(1)
	defer f.work(-1)
	body, err := io.ReadAll(r.Body)
	sum := sha256.Sum256(body)
	a := arrival{
		key: r.Header.Get("Key"), digest: hex.EncodeToString(sum[:]), claimed: r.Header.Get("Request-Digest"),
		worker: r.Header.Get("Worker"), at: time.Now(), whole: err == nil,
	}
	a.number, _ = strconv.Atoi(r.Header.Get("Number"))
	a.generation, _ = strconv.ParseInt(r.Header.Get("Generation"), 10, 64)
	f.mu.Lock()
	a.acted = a.whole && f.refuse[a.key] == 0
	if a.whole && !a.acted {
		f.refuse[a.key]--
	}
	if !f.forgets {
		f.log = append(f.log, a)
	}
	hold, takes := f.holding[a.key], f.takes
	f.mu.Unlock()
	time.Sleep(takes)
	if hold != nil {
		<-hold
	}
	if !a.acted {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
}

func (f *receiver) work(change int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.busy += change
}

// underWay is how many requests were not answered yet.
func (f *receiver) underWay() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.busy
}

// refuses has the first n requests under a key refused.
func (f *receiver) refuses(key string, n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refuse[key] = n
}

// holds keeps the answers under a key back until the returned function is called.
func (f *receiver) holds(key string) (release func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := make(chan struct{})
	f.holding[key] = c
	return sync.OnceFunc(func() { close(c) })
}

// lets has answers under a key not kept back any more.
func (f *receiver) lets(key string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.holding, key)
}

// all is the whole log so far.
func (f *receiver) all() []arrival {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.log)
}

// elapse moves back what came under some keys, as records.elapse does the rest.
func (f *receiver) elapse(keys []string, d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.log {
		if slices.Contains(keys, f.log[i].key) {
			f.log[i].at = f.log[i].at.Add(-d)
		}
	}
}

// count is how many requests have come so far.
func (f *receiver) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.log)
}

// acts is how often the far side acted on a key, and how much came under it.
func (f *receiver) acts(key string) (acted, came int) {
	for _, a := range f.all() {
		if a.key == key {
			came++
			if a.acted {
				acted++
			}
		}
	}
	return acted, came
}
