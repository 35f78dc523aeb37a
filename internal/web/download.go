package web

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/operate"
	"github.com/naupegos/naupegos/internal/server"
	"github.com/naupegos/naupegos/internal/server/access"
)

// download is a file that a form on a cluster's page fetches. It may hold secrets: each download is noted in the audit before it is sent.
type download struct {
	what   string // for the audit
	need   server.Role
	fresh  bool // requires a recent sign-in
	within time.Duration
	file   func(ctx context.Context, p *Pages, who *access.Operator, name string) (as string, data []byte, err error)
}

// downloads returns the files of a cluster, by their patterns.
func downloads() map[string]download {
	return map[string]download{
		"/ui/clusters/{name}/kubeconfig": {"got a kubeconfig", server.Operate, true, 0, func(ctx context.Context, p *Pages, who *access.Operator, name string) (string, []byte, error) {
			files, err := lookAt(ctx, p, who, name, func(s *operate.Session) (*operate.Files, error) {
				return operate.KubeconfigView.See(ctx, s, operate.KubeconfigFor{})
			})
			if err != nil {
				return "", nil, err
			}
			return name + ".kubeconfig", files.Files[operate.Kubeconfig], nil
		}},
		"/ui/clusters/{name}/support": {"got a support archive", server.Admin, false, operate.LogsView.Within, func(ctx context.Context, p *Pages, who *access.Operator, name string) (string, []byte, error) {
			as := name + "-" + time.Now().UTC().Format("20060102T150405Z")
			logs, err := lookAt(ctx, p, who, name, func(s *operate.Session) (*operate.Archive, error) {
				return operate.LogsView.See(ctx, s, operate.LogsOf{Prefix: as})
			})
			if err != nil {
				return "", nil, err
			}
			return as + ".tar.gz", logs.Archive, nil
		}},
	}
}

// sensitive refuses an old sign-in, and notes the begin of the request in the audit: without an entry, no secret is sent and no data destroyed.
func (p *Pages) sensitive(r *http.Request, who *access.Operator, what, cluster string) error {
	if err := p.c.Gate.Fresh(*who); err != nil {
		return err
	}
	return p.c.Gate.Ready(r, *who, server.Admin, what, cluster)
}

// handOut serves a download to operators who may have it.
func (p *Pages) handOut(d download) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who := p.signedIn(w, r)
		if who == nil {
			return
		}
		cluster, err := who.Admit(r, d.need, server.Cluster("name"))
		switch {
		case err != nil:
		case d.fresh:
			err = p.sensitive(r, who, d.what, cluster)
		default:
			err = p.c.Gate.Ready(r, *who, server.Admin, d.what, cluster)
		}
		var as string
		var data []byte
		if err == nil {
			as, data, err = d.file(r.Context(), p, who, cluster)
		}
		err = who.Told(err)
		p.c.Gate.Note(r, *who, d.what, cluster, err)
		if err != nil {
			p.failed(w, r, who, err)
			return
		}
		h := w.Header()
		h.Set("Content-Type", "application/octet-stream")
		h.Set("Content-Disposition", fmt.Sprintf(`attachment; filename="%s"`, strings.Map(plainName, as)))
		_, _ = w.Write(data) // an error means that the client has left
	})
}

// plainName replaces characters of a file's name that would need quotes.
func plainName(r rune) rune {
	if r == '.' || r == '-' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
		return r
	}
	return '_'
}
