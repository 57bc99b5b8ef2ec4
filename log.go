package consign

import (
	"context"
	"log/slog"
)

// logged returns what writes observations to a logger: ids, codes and durations,
// never content.
func logged(l *slog.Logger) func(Observation) {
	return func(ob Observation) {
		ctx, level := context.Background(), ob.level()
		if !l.Enabled(ctx, level) {
			return
		}
		attrs := make([]slog.Attr, 0, 10)
		text := func(key, value string) {
			if value != "" {
				attrs = append(attrs, slog.String(key, value))
			}
		}
		text("kind", ob.Kind)
		if !ob.Ref.IsZero() {
			text("ref", ob.Ref.String())
		}
		text("status", string(ob.Status))
		text("code", string(ob.Code))
		text("outcome", ob.Outcome)
		if ob.Attempt > 0 {
			attrs = append(attrs, slog.Int("attempt", ob.Attempt))
		}
		if ob.Count > 0 {
			attrs = append(attrs, slog.Int("count", ob.Count))
		}
		if ob.Duration > 0 {
			attrs = append(attrs, slog.Duration("duration", ob.Duration))
		}
		if ob.Err != nil {
			text("error", ob.Err.Error())
		}
		l.LogAttrs(ctx, level, "consign: "+ob.Event, attrs...)
	}
}

// level is how loud an observation is: what a person must look at is a warning.
func (ob *Observation) level() slog.Level {
	switch ob.Event {
	case "error", "fence":
		return slog.LevelWarn
	case "sweep":
		return slog.LevelInfo
	case "settle":
		switch {
		case ob.Status == StatusReconciliationRequired, ob.Status == StatusFailed:
			return slog.LevelWarn
		case ob.Outcome != "succeeded" || ob.Code != "":
			return slog.LevelInfo
		}
	}
	return slog.LevelDebug
}
