package console

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
)

// live is what the script puts into a page that is open: texts by the name of the
// place. All who look share one snapshot, and an unchanged one is answered with
// nothing. It does not keep a session from being idle.
func (c *Console) live(w http.ResponseWriter, r *http.Request) {
	v := visitOf(r)
	if !v.in || !v.may(Look) {
		http.Error(w, "signed out", http.StatusUnauthorized)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), c.o.Timeout)
	defer cancel()
	s, err := c.snapshot(ctx)
	if err != nil {
		http.Error(w, "the database does not answer", http.StatusServiceUnavailable)
		return
	}
	text, err := json.Marshal(s.texts())
	if err != nil {
		http.Error(w, "not possible", http.StatusInternalServerError)
		return
	}
	sum := sha256.Sum256(text)
	etag := `"` + hex.EncodeToString(sum[:8]) + `"`
	w.Header().Set("ETag", etag)
	w.Header().Set("Cache-Control", "no-cache, private")
	if r.Header.Get("If-None-Match") == etag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Write(text)
}

// texts are the places with their present texts.
func (s *snapshot) texts() map[string]string {
	out := map[string]string{
		"review": counted(s.Review, s.ReviewCapped), "approvals": counted(s.Approvals, s.MoreToSign),
	}
	for _, n := range s.Counts.Counts {
		out["n:"+string(n.Profile)+":"+n.Kind+":"+string(n.Status)] = counted(n.N, n.Capped)
	}
	for _, l := range s.sparklines() {
		out["spark:"+l.Name] = l.Points
		out["words:"+l.Name] = l.Words
	}
	return out
}
