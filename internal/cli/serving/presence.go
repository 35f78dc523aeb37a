package serving

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"log/slog"
	"time"

	"github.com/naupegos/naupegos/internal/server"
	"github.com/naupegos/naupegos/internal/store"
)

// Times of presence: a server without a beat for presenceTTL counts as gone.
const (
	presenceTTL  = 30 * time.Second
	presenceBeat = 10 * time.Second
)

// presence records in the store that this server is running, so that no restore replaces the store under it.
type presence struct {
	st   store.Store
	info store.ServerInfo
	log  *slog.Logger
}

// appear records the server for the first time, before anything else is read from the store.
func appear(ctx context.Context, st store.Store, version string, f *flags, log *slog.Logger) (*presence, error) {
	id := make([]byte, 8)
	_, _ = rand.Read(id) // never fails: crypto/rand ends the program instead
	p := &presence{st, store.ServerInfo{ID: hex.EncodeToString(id), Version: version, HTTP: f.http, HTTPS: f.https, Started: time.Now().UTC().Truncate(time.Microsecond)}, log}
	return p, st.BeatServer(ctx, p.info, presenceTTL)
}

// leave removes the record.
func (p *presence) leave(ctx context.Context) {
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := p.st.LeaveServer(bounded, p.info.ID); err != nil {
		p.log.Warn("the store still has this server as being at work, for half a minute", "error", err.Error())
	}
}

// part renews the record while the server runs. It ignores a database that is away, which /healthz reports.
func (p *presence) part() server.Part {
	return server.Part{Name: "presence", Run: func(ctx context.Context) error {
		tick := time.NewTicker(presenceBeat)
		defer tick.Stop()
		for {
			err := p.st.BeatServer(ctx, p.info, presenceTTL)
			if errors.Is(err, store.ErrRenewed) { // after the service manager's restart, the server reads the new identity
				return err
			}
			if err != nil && ctx.Err() == nil {
				p.log.Error("this server could not be registered in the store", "error", err.Error())
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return nil
			}
		}
	}}
}
