package peer

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/naupegos/naupegos/internal/plan/words"
)

// Limits of log lines about strangers.
const (
	Long     = 200  // bytes of one text from a stranger in a log or audit line
	mostKeys = 1024 // combinations of message and address whose repeats are counted separately
	perLog   = 2    // lines per second, from all addresses together, after the burst
	burstLog = 200
)

// Log writes warnings about strangers. It clips their text, combines the repeats of a minute into one line, and limits all lines to two per second
// after a burst. It may be used by several goroutines.
type Log struct {
	log     *slog.Logger
	repeats *Repeats[warning]
	lines   *rate.Limiter
	dropped atomic.Int64 // warnings over that limit
}

type warning struct{ message, address string }

// NewLog writes to a log; nil writes nothing.
func NewLog(log *slog.Logger) *Log { return newLog(log, time.Now) }

func newLog(log *slog.Logger, now func() time.Time) *Log {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Log{log: log, repeats: NewRepeats[warning](mostKeys, now), lines: rate.NewLimiter(perLog, burstLog)}
}

// Warn writes a line about a request or packet of an address, unless the same message about that address was written within the minute. Text in
// attrs is clipped.
func (l *Log) Warn(ctx context.Context, message, address string, attrs ...slog.Attr) {
	address = Key(address)
	pass, ended := l.repeats.Count(message+"\x00"+address, 1, warning{message, address})
	l.summarize(ctx, ended)
	if !pass {
		return
	}
	if !l.lines.Allow() {
		l.dropped.Add(1)
		return
	}
	all := append(make([]slog.Attr, 0, len(attrs)+2), slog.String("from", address))
	for _, a := range attrs {
		all = append(all, clip(a))
	}
	if n := l.dropped.Swap(0); n > 0 {
		all = append(all, slog.Int64("dropped", n))
	}
	l.log.LogAttrs(context.WithoutCancel(ctx), slog.LevelWarn, message, all...)
}

// summarize writes one line for each message that was repeated within the last minute.
func (l *Log) summarize(ctx context.Context, all []Held[warning]) {
	for _, h := range all {
		if !l.lines.Allow() {
			l.dropped.Add(int64(h.Times))
			continue
		}
		if h.Key == "" {
			h.Last = warning{"several", "other addresses"}
		}
		l.log.LogAttrs(context.WithoutCancel(ctx), slog.LevelWarn, "repeated within a minute", slog.String("message", h.Last.message), slog.String("from", h.Last.address), slog.Int("times", h.Times))
	}
}

// clip clips the text of an attribute.
func clip(a slog.Attr) slog.Attr {
	if a.Value = a.Value.Resolve(); a.Value.Kind() == slog.KindString {
		a.Value = slog.StringValue(words.Clip(a.Value.String(), Long))
	}
	return a
}
