// Package tracing exports traces of deliveries over OTLP. A delivery is a trace of
// its own that links to the span under which its intent was enqueued: the two may be
// days apart, and one enqueue may be delivered more than once. No attribute is
// content.
package tracing

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/consign-go/consign"
)

// Tracing makes spans and exports them. Its zero value and nil make none.
type Tracing struct {
	provider *sdk.TracerProvider
	tracer   trace.Tracer
}

// environment are the variables that OpenTelemetry itself reads an endpoint from.
var environment = []string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"}

// Start returns tracing to an endpoint (a URL, to whose path /v1/traces is added), or
// to the one that the usual variables name; without either there is none. It contacts
// nothing. sample is the share of traces that are kept, 0 to 1.
func Start(ctx context.Context, endpoint, service, version string, sample float64) (*Tracing, error) {
	var options []otlptracehttp.Option
	if endpoint != "" {
		options = append(options, otlptracehttp.WithEndpointURL(strings.TrimSuffix(endpoint, "/")+"/v1/traces"))
	} else if os.Getenv(environment[0]) == "" && os.Getenv(environment[1]) == "" {
		return nil, nil
	}
	exporter, err := otlptracehttp.New(ctx, options...)
	if err != nil {
		return nil, fmt.Errorf("trace: %w", err)
	}
	r := resource.NewSchemaless(attribute.String("service.name", service), attribute.String("service.version", version))
	provider := sdk.NewTracerProvider(sdk.WithBatcher(exporter), sdk.WithResource(r), sdk.WithSampler(sdk.TraceIDRatioBased(sample)))
	return &Tracing{provider, provider.Tracer("github.com/consign-go/consign")}, nil
}

// Stop exports what there is.
func (t *Tracing) Stop(ctx context.Context) error {
	if t == nil {
		return nil
	}
	return t.provider.Shutdown(ctx)
}

// Channel returns c with a span around each attempt.
func (t *Tracing) Channel(c consign.Channel) consign.Channel {
	if t == nil || c.Deliver == nil {
		return c
	}
	deliver := c.Deliver
	c.Deliver = func(ctx context.Context, m consign.Message, a consign.Attempt) error {
		options := []trace.SpanStartOption{
			trace.WithNewRoot(), trace.WithSpanKind(trace.SpanKindClient),
			trace.WithAttributes(
				attribute.String("consign.ref", a.Ref.String()), attribute.String("consign.kind", m.Channel),
				attribute.Int("consign.attempt", a.Number), attribute.Int64("consign.generation", a.Generation),
			),
		}
		if from := remote(a.Trace); from.IsValid() {
			options = append(options, trace.WithLinks(trace.Link{SpanContext: from}))
		}
		ctx, span := t.tracer.Start(ctx, "deliver "+m.Channel, options...)
		defer span.End()
		err := deliver(ctx, m, a)
		if err != nil {
			// The text of an error is whatever a channel makes of it. Its kind will do.
			span.SetStatus(codes.Error, kindOf(err))
		}
		return err
	}
	return c
}

// kindOf says of an error no more than how the context stood.
func kindOf(err error) string {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return "timed out"
	case errors.Is(err, context.Canceled):
		return "cancelled"
	}
	return "not known to be delivered"
}

// Capture returns the trace context to keep with an intent: of the span in ctx, or
// what the caller of this process has put into TRACEPARENT.
func Capture(ctx context.Context) string {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	if s := carrier["traceparent"]; s != "" {
		return s
	}
	if s := os.Getenv("TRACEPARENT"); remote(s).IsValid() {
		return s
	}
	return ""
}

// remote reads a W3C traceparent.
func remote(traceparent string) trace.SpanContext {
	ctx := propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier{"traceparent": traceparent})
	return trace.SpanContextFromContext(ctx)
}
