package webhook

import "context"

// Probe makes a connection to [Options.URL] as an attempt would, through the guard,
// a proxy and TLS, and closes it without sending a request. The error is an
// [*Error] that says at which stage it failed; nil too where the endpoint has no URL
// of its own. It takes up to the time-outs for connecting.
func (e *Endpoint) Probe(ctx context.Context) error {
	if e.fixed == nil {
		return nil
	}
	w, _, err := e.dialer.open(ctx, e.fixed)
	if err != nil {
		return err
	}
	w.close()
	return nil
}
