// Package webhook shows the two ends of a webhook with an independent
// implementation of Standard Webhooks on one of them: a receiver that checks what
// Consign sends with the specification's own library, and a sender that signs with
// it for Consign's receiving end.
package webhook

import (
	"io"
	"net/http"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// Receiver takes requests signed with the secret ("whsec_…") and hands the key and
// the body of each to then. It drops nothing: deduplicating is up to then, so a
// channel to it is not idempotent unless then sees to that.
func Receiver(secret string, then func(key string, body []byte) error) (http.Handler, error) {
	check, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		return nil, err
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
		if err != nil {
			w.WriteHeader(http.StatusRequestEntityTooLarge)
			return
		}
		if err := check.Verify(body, r.Header); err != nil {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		if err := then(r.Header.Get("Webhook-Id"), body); err != nil {
			w.WriteHeader(http.StatusInternalServerError) // nobody knows what then has done
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}), nil
}
