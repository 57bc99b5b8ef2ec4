module github.com/consign-go/consign/examples/webhook

go 1.26.0

require (
	github.com/consign-go/consign v0.0.0
	github.com/standard-webhooks/standard-webhooks/libraries v0.0.1
)

replace github.com/consign-go/consign => ../..
