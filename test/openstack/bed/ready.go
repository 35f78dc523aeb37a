package bed

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"
)

// listens reports whether all ports of the service are open and, for an API service, whether it answers.
func (s *Service) listens(ctx context.Context) (bool, error) {
	for _, p := range s.ports {
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		if host, _, err := net.SplitHostPort(p); err != nil || host != s.b.o.Address {
			conn, err := new(net.Dialer).DialContext(ctx, "tcp", p)
			if err != nil {
				return false, err
			}
			conn.Close()
			continue
		}
		if err := answers(ctx, s.b.http, "http://"+p+"/"); err != nil {
			return false, err
		}
	}
	return true, nil
}

// answers returns nil if the service at url answers, else the reason why not.
func answers(ctx context.Context, client *http.Client, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	resp.Body.Close()
	if resp.StatusCode >= 500 {
		return fmt.Errorf("%s answers %s", url, resp.Status)
	}
	return nil
}

func (b *Bed) answersSQL(ctx context.Context) (bool, error) {
	_, err := b.DB(ctx, "", "SELECT 1")
	return err == nil, err
}

// reported reports whether n processes of a worker have written to the database since the service started. Nova and Cinder use the same record.
func reported(b *Bed, database, binary string, n int) func(context.Context) (bool, error) {
	return func(ctx context.Context) (bool, error) {
		p, err := readProcess(b.record(binary))
		if err != nil {
			return false, err
		}
		since, err := startedAt(p)
		if err != nil {
			return false, err
		}
		return count(ctx, b, n, database, fmt.Sprintf(
			"SELECT COUNT(*) FROM services WHERE deleted=0 AND `binary`='%s' AND COALESCE(updated_at, created_at) >= '%s'", binary, since.UTC().Format(time.DateTime)))
	}
}

// count reports whether a counting query returns at least n.
func count(ctx context.Context, b *Bed, n int, database, query string) (bool, error) {
	rows, err := b.DB(ctx, database, query)
	if err != nil {
		return false, err
	}
	if len(rows) != 1 || len(rows[0]) != 1 {
		return false, fmt.Errorf("%s: a number was expected", query)
	}
	have, err := strconv.Atoi(rows[0][0])
	return have >= n, err
}

// schedulesVolumes reports whether Cinder's scheduler knows every backend. Before that it fails each volume after a minute although it runs and
// reports.
func (b *Bed) schedulesVolumes(ctx context.Context) (bool, error) {
	if ok, err := reported(b, "cinder", "cinder-scheduler", 1)(ctx); !ok || err != nil {
		return false, err
	}
	a, err := b.login(ctx)
	if err != nil {
		return false, err
	}
	var answer struct {
		Pools []struct{ Name string }
	}
	_, err = a.call(ctx, http.MethodGet, b.cinder(a.project)+"/scheduler-stats/get_pools", nil, &answer)
	if err == nil && len(answer.Pools) < volumeBackends {
		err = fmt.Errorf("it knows %d volume backends of %d", len(answer.Pools), volumeBackends)
	}
	return err == nil, err
}

// consumes reports whether a worker listens to its queue, which it does once it has a connection to the broker.
func (b *Bed) consumes(name string) func(context.Context) (bool, error) {
	return func(context.Context) (bool, error) {
		p, err := readProcess(b.record(name))
		if err != nil {
			return false, err
		}
		for _, pid := range p.members() {
			if connectedTo(pid, inner.Broker) {
				return true, nil
			}
		}
		return false, nil
	}
}

// opens reports whether TCP ports are open that do not speak HTTP.
func opens(ports ...string) func(context.Context) (bool, error) {
	return func(ctx context.Context) (bool, error) {
		for _, p := range ports {
			conn, err := new(net.Dialer).DialContext(ctx, "tcp", p)
			if err != nil {
				return false, err
			}
			conn.Close()
		}
		return true, nil
	}
}
