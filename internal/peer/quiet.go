package peer

import (
	"context"
	"errors"
	"log/slog"
	"time"
)

// perMinute is how many lines with one message Quiet writes in a minute.
const perMinute = 20

// Quiet returns a logger for packets that anybody on the link can send. It writes the first 20 lines with one message in a minute, counts the rest in
// one line, and clips text.
func Quiet(log *slog.Logger) *slog.Logger {
	return slog.New(&quiet{log.Handler(), NewRepeats[line](mostKeys, time.Now)})
}

type quiet struct {
	slog.Handler
	repeats *Repeats[line]
}

// line is a record and the handler that has its logger's attributes.
type line struct {
	to     slog.Handler
	record slog.Record
}

// Handle implements slog.Handler.
func (q *quiet) Handle(ctx context.Context, r slog.Record) error {
	out := slog.NewRecord(r.Time, r.Level, r.Message, r.PC)
	r.Attrs(func(a slog.Attr) bool {
		out.AddAttrs(clip(a))
		return true
	})
	pass, ended := q.repeats.Count(r.Message, perMinute, line{q.Handler, out})
	var failed []error
	for _, h := range ended {
		h.Last.record.AddAttrs(slog.Int("repeated", h.Times))
		failed = append(failed, h.Last.to.Handle(ctx, h.Last.record))
	}
	if pass {
		failed = append(failed, q.Handler.Handle(ctx, out))
	}
	return errors.Join(failed...)
}

// WithAttrs implements slog.Handler.
func (q *quiet) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &quiet{q.Handler.WithAttrs(attrs), q.repeats}
}

// WithGroup implements slog.Handler.
func (q *quiet) WithGroup(name string) slog.Handler {
	return &quiet{q.Handler.WithGroup(name), q.repeats}
}
