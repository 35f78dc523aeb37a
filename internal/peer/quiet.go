package peer

import (
	"context"
	"log/slog"
)

// perMinute is how many lines of one message Quiet writes in a minute.
const perMinute = 20

// Quiet returns a log for what each packet of a stranger may cause: it writes the first lines of one message in a minute and tells the others as a
// number, and it clips text.
func Quiet(log *slog.Logger) *slog.Logger {
	return slog.New(&quiet{log.Handler(), NewRepeats(perMinute, mostKeys)})
}

type quiet struct {
	slog.Handler
	repeats *Repeats
}

// Handle implements slog.Handler.
func (q *quiet) Handle(ctx context.Context, r slog.Record) error {
	now, untold := q.repeats.Tell(r.Message)
	if !now {
		return nil
	}
	out := slog.NewRecord(r.Time, r.Level, r.Message, r.PC)
	r.Attrs(func(a slog.Attr) bool {
		if a.Value = a.Value.Resolve(); a.Value.Kind() == slog.KindString {
			a.Value = slog.StringValue(Clip(a.Value.String(), Long))
		}
		out.AddAttrs(a)
		return true
	})
	if untold > 0 {
		out.AddAttrs(slog.Int("repeated", untold))
	}
	return q.Handler.Handle(ctx, out)
}

// WithAttrs implements slog.Handler.
func (q *quiet) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &quiet{q.Handler.WithAttrs(attrs), q.repeats}
}

// WithGroup implements slog.Handler.
func (q *quiet) WithGroup(name string) slog.Handler {
	return &quiet{q.Handler.WithGroup(name), q.repeats}
}
