package bed

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
)

// giveBackTime limits the time for stopping a borrowed bed.
const giveBackTime = 10 * time.Minute

// Borrow returns the running bed and starts it first if it does not run, as Up does. The caller calls giveBack when done: it stops a bed that
// Borrow started and does nothing otherwise. It also works after ctx has ended.
func Borrow(ctx context.Context, o Options) (b *Bed, giveBack func() error, err error) {
	giveBack = func() error { return nil }
	if _, err := Open(o); fail.KindOf(err) == fail.NotFound {
		giveBack = func() error {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveBackTime)
			defer cancel()
			o.Log = nil // the caller's output comes last, so stop quietly
			return Down(ctx, o, false)
		}
	}
	if b, err = Up(ctx, o); err != nil && fail.KindOf(err) != fail.Refused {
		err = errors.Join(err, giveBack())
	}
	if err != nil {
		return nil, nil, err
	}
	return b, giveBack, nil
}

// LastLogs returns the last lines of each service's log, by log name.
func (b *Bed) LastLogs() map[string]string {
	const last = 512 << 10
	out := map[string]string{}
	paths, _ := filepath.Glob(filepath.Join(b.LogDir(), "*.log"))
	for _, path := range paths {
		if text, err := os.ReadFile(path); err == nil {
			out[filepath.Base(path)] = strings.ToValidUTF8(string(text[max(0, len(text)-last):]), "")
		}
	}
	return out
}
