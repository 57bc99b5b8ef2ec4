package webhook_test

import (
	"fmt"
	"net/http"

	"github.com/consign-go/consign/webhook"
)

// A receiver that rolls its work back before it says 500 may have that called a
// refusal; the table shows it as the endpoint's own rule.
func ExampleEndpoint_Rules() {
	e, err := webhook.New(webhook.Options{
		URL:       "https://crm.example/hooks/tickets",
		Overrides: map[int]webhook.Verdict{http.StatusInternalServerError: webhook.Refused},
	})
	if err != nil {
		panic(err)
	}
	first := e.Rules()[0]
	fmt.Println(first.From, first.Verdict, first.Override)
	// Output: 500 refused true
}
