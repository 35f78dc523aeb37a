package serving

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"log/slog"
	"time"

	"github.com/spf13/pflag"

	"github.com/naupegos/naupegos/internal/cluster/report"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/operate"
	"github.com/naupegos/naupegos/internal/server"
	"github.com/naupegos/naupegos/internal/server/watch"
	"github.com/naupegos/naupegos/internal/store"
)

// bindHealth adds the flag for the interval between looks at clusters.
func bindHealth(to *pflag.FlagSet, every *time.Duration) {
	to.DurationVar(every, "health-interval", watch.Usual, "how often to look at each cluster's health, for the pages and the metrics; 0 turns it off. Slow looks come less often")
}

// watching returns the part that records the health of clusters.
func (h Host) watching(st store.Store, every time.Duration, log *slog.Logger) (server.Part, error) {
	if every < 0 || every > 0 && every < time.Second {
		return server.Part{}, fail.New(fail.Invalid, "--health-interval %s", every).Do("give at least 1s, or 0 for no looks")
	}
	part := server.Part{Name: "health"}
	if every > 0 {
		self := make([]byte, 8)
		_, _ = rand.Read(self) // never fails: crypto/rand ends the program instead
		part.Run = watch.New(watch.Config{Store: st, Look: h.lookAt, Every: every, Self: hex.EncodeToString(self), Log: log}).Run
	}
	return part, nil
}

// lookAt observes a cluster.
func (h Host) lookAt(ctx context.Context, name string) (status *report.Status, err error) {
	err = h.observe(ctx, name, func(s *operate.Session) (err error) {
		status, err = s.Cluster.Status(ctx)
		return err
	})
	return status, err
}
