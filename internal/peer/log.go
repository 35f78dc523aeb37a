package peer

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

// Bounds of what strangers have written.
const (
	Long     = 200  // bytes of one text of a stranger in a log or audit line
	mostKeys = 1024 // messages and addresses whose repeats are counted
	perLog   = 2    // lines a second, whoever causes them, after
	burstLog = 200  // so many at once
)

// Log writes lines about strangers: clipped, the repeats of a minute as one number, and never more than two a second for long. It may be used
// by several goroutines.
type Log struct {
	log     *slog.Logger
	repeats *Repeats
	lines   *rate.Limiter
	dropped atomic.Int64 // lines that were over that rate
	swept   atomic.Int64 // when the minutes that are over were told last
}

// NewLog writes to a log; nil writes nothing.
func NewLog(log *slog.Logger) *Log {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Log{log: log, repeats: NewRepeats(1, mostKeys), lines: rate.NewLimiter(perLog, burstLog)}
}

// Warn writes a line about what an address did. The message and the address make it equal to others. Text in attrs is clipped.
func (l *Log) Warn(ctx context.Context, message, address string, attrs ...slog.Attr) {
	address = Key(address)
	l.sweep(ctx)
	now, untold := l.repeats.Tell(message + "\x00" + address)
	if !now {
		return
	}
	if !l.lines.Allow() {
		l.dropped.Add(1)
		return
	}
	all := append(make([]slog.Attr, 0, len(attrs)+2), slog.String("from", address))
	for _, a := range attrs {
		if a.Value.Kind() == slog.KindString {
			a.Value = slog.StringValue(Clip(a.Value.String(), Long))
		}
		all = append(all, a)
	}
	if untold > 0 {
		all = append(all, slog.Int("repeated", untold))
	}
	if n := l.dropped.Swap(0); n > 0 {
		all = append(all, slog.Int64("dropped", n))
	}
	l.log.LogAttrs(context.WithoutCancel(ctx), slog.LevelWarn, message, all...)
}

// sweep tells once a minute what was repeated since, and by whom.
func (l *Log) sweep(ctx context.Context) {
	at := l.repeats.now()
	last := l.swept.Load()
	if at.UnixNano()-last < int64(time.Minute) || !l.swept.CompareAndSwap(last, at.UnixNano()) {
		return
	}
	for key, n := range l.repeats.Ended() {
		if !l.lines.Allow() {
			l.dropped.Add(int64(n))
			continue
		}
		message, address, _ := strings.Cut(key, "\x00")
		l.log.LogAttrs(context.WithoutCancel(ctx), slog.LevelWarn, "repeated within a minute", slog.String("message", message), slog.String("from", address), slog.Int("times", n))
	}
}
