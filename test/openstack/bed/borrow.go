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

// giveBackTime bounds stopping a bed that was borrowed.
const giveBackTime = 10 * time.Minute

// Borrow returns the running bed, which it starts where it does not run, as Up does. giveBack, to be called when the caller is done,
// leaves the bed as it was: it stops one that did not run before, and does nothing to another. It does its work after ctx has ended, too.
func Borrow(ctx context.Context, o Options) (b *Bed, giveBack func() error, err error) {
	giveBack = func() error { return nil }
	if _, err := Open(o); fail.KindOf(err) == fail.NotFound {
		giveBack = func() error {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveBackTime)
			defer cancel()
			o.Log = nil // the last words are those of what the bed was for
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

// LastLogs returns what each service has said last, by the name of its log.
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
