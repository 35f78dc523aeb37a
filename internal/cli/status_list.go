package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/user"
	"path/filepath"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/cli/output"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/store"
)

// clusterRow is one cluster in the list.
type clusterRow struct {
	Name       string    `json:"name"`
	ID         string    `json:"id"`
	Provider   string    `json:"provider"`
	Kubernetes string    `json:"kubernetes,omitempty"` // version that the document wants
	Health     string    `json:"health"`               // "healthy", "not healthy", or why it can't be told
	Created    time.Time `json:"created"`
	Lease      string    `json:"lease,omitempty"` // who is at work on it
}

// listClusters lists what is in the store, with each cluster's health as far as it can be told within a time.
func (a *App) listClusters(ctx context.Context, out *output.Format, within time.Duration) error {
	st, err := a.viewStore(ctx)
	if err != nil {
		return err
	}
	defer st.Close()
	rows, err := clusterRows(ctx, st)
	if err != nil {
		return err
	}
	if len(rows) == 0 && out.IsTable() {
		return noClusters(a.Out, st)
	}
	a.addHealth(ctx, rows, within)
	return out.Print(a.Out, rows, func(w io.Writer) error {
		t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
		fmt.Fprintln(t, "NAME\tPROVIDER\tKUBERNETES\tHEALTH\tCREATED\tID\tAT WORK")
		for _, r := range rows {
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", r.Name, r.Provider, output.Dash(r.Kubernetes), r.Health, r.Created.Local().Format(time.DateTime), r.ID, r.Lease)
		}
		return t.Flush()
	})
}

func clusterRows(ctx context.Context, st store.Store) ([]clusterRow, error) {
	clusters, err := st.Clusters(ctx)
	if err != nil {
		return nil, err
	}
	leases, err := st.Leases(ctx)
	if err != nil {
		return nil, err
	}
	rows := []clusterRow{}
	for _, c := range clusters {
		r := clusterRow{Name: c.Name, ID: c.ID, Provider: c.Provider, Created: c.CreatedAt}
		if doc, err := v1alpha1.Parse("the stored document of "+c.Name, c.Document); err == nil { // addHealth says why not
			r.Kubernetes = doc.Spec.Kubernetes.Version
		}
		for _, l := range leases {
			if l.ClusterID == c.ID {
				r.Lease = fmt.Sprintf("%s by %s (alive: %s, expires %s)", l.Verb, l.Holder, l.Alive, l.Expires.Format(time.TimeOnly))
			}
		}
		rows = append(rows, r)
	}
	return rows, nil
}

// addHealth looks at all clusters at once.
func (a *App) addHealth(ctx context.Context, rows []clusterRow, within time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	quiet := *a
	quiet.Err = io.Discard // a bundle that is not here shows in the health
	var wg sync.WaitGroup
	for i := range rows {
		wg.Go(func() {
			st, err := quiet.lookAt(ctx, rows[i].Name)
			switch {
			case ctx.Err() != nil:
				rows[i].Health = fmt.Sprintf("unknown: no answer within %s", within)
			case err != nil:
				rows[i].Health = fmt.Sprintf("unknown (%s)", fail.KindOf(err))
			case st.Healthy:
				rows[i].Health = "healthy"
			default:
				rows[i].Health = "not healthy"
			}
		})
	}
	wg.Wait()
}

// noClusters says that the store is empty, and where else clusters may be: root and its users have stores of their own.
func noClusters(w io.Writer, st store.Store) error {
	text := fmt.Sprintf("No clusters in %s.\nnaupegos init writes a document, naupegos apply builds it.\n", st.Where())
	if st.Where() != st.Dir() { // a team's
		_, err := io.WriteString(w, text)
		return err
	}
	if os.Geteuid() != 0 {
		text += "Clusters that root built are in root's store: sudo -E naupegos status, or sudo naupegos status.\n"
	} else if other := storeBeforeSudo(st.Dir()); other != "" {
		text += fmt.Sprintf("%s is the store of the user who ran sudo: sudo -E uses that one.\n", other)
	}
	_, err := io.WriteString(w, text)
	return err
}

// storeBeforeSudo returns the store of the user who became root by sudo, if there is one and it is not dir.
func storeBeforeSudo(dir string) string {
	u, err := user.Lookup(os.Getenv("SUDO_USER"))
	if err != nil {
		return ""
	}
	other := filepath.Join(u.HomeDir, ".local", "state", "naupegos")
	if _, err := os.Stat(other); err != nil || other == dir {
		return ""
	}
	return other
}
