package work

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"github.com/naupegos/naupegos/internal/autoscale/externalgrpc"
	"github.com/naupegos/naupegos/internal/cluster/connect"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/operate"
	"github.com/naupegos/naupegos/internal/pki"
	"github.com/naupegos/naupegos/internal/store"
	"github.com/naupegos/naupegos/internal/testkit"
)

// scaling sets the port in a cluster's document at which servers answer its autoscaler; 0: they don't.
func (s *site) scaling(t *testing.T, name string, port int) *store.Cluster {
	t.Helper()
	text := strings.Replace(document, "name: demo", "name: "+name, 1)
	text = strings.Replace(text, "replicas: 2", "replicas: 0, minReplicas: 0, maxReplicas: 2", 1)
	text += "  controlPlane: {schedulable: true}\n"
	if port != 0 {
		text += fmt.Sprintf("  unattended: {autoscale: true, autoscalePort: %d}\n", port)
	}
	c, err := s.store.Cluster(t.Context(), name)
	if fail.KindOf(err) == fail.NotFound {
		c, err = s.store.CreateCluster(t.Context(), store.Cluster{Name: name, Provider: "local", Document: []byte(text)})
	}
	testkit.Must(t, err)
	c.Document = []byte(text)
	testkit.Must(t, s.store.SaveCluster(t.Context(), c))
	testkit.Must(t, pki.Open(s.store.Secrets(c.ID), pki.Options{}).Ensure(t.Context()))
	return c
}

// autoscaler returns a client that is configured like a cluster's autoscaler.
func (s *site) autoscaler(t *testing.T, c *store.Cluster, port int) externalgrpc.CloudProviderClient {
	t.Helper()
	k := pki.Open(s.store.Secrets(c.ID), pki.Options{})
	own := testkit.Value(k.Issue(t.Context(), pki.LeafSpec{Authority: pki.KubernetesCA, CommonName: connect.AutoscalerName, Client: true}, time.Hour))(t)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(testkit.Value(k.CABundle(t.Context(), pki.KubernetesCA))(t))
	cert := testkit.Value(tls.X509KeyPair(own.CertPEM, own.KeyPEM))(t)
	conn := testkit.Value(grpc.NewClient(net.JoinHostPort("127.0.0.1", strconv.Itoa(port)),
		grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{RootCAs: pool, Certificates: []tls.Certificate{cert}}))))(t)
	t.Cleanup(func() { conn.Close() })
	return externalgrpc.NewCloudProviderClient(conn)
}

// answered waits until a cluster's autoscaler is answered.
func (s *site) answered(t *testing.T, c externalgrpc.CloudProviderClient) {
	t.Helper()
	testkit.Until(t, time.Minute, 20*time.Millisecond, func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		groups, err := c.NodeGroups(ctx, &externalgrpc.NodeGroupsRequest{})
		if err != nil {
			all, _ := s.store.Duties(t.Context(), "")
			return fail.Wrap(fail.NotReady, err, "ask for groups: %+v", all)
		}
		if g := groups.GetNodeGroups(); len(g) != 1 || g[0].GetId() != "a" || g[0].GetMaxSize() != 2 {
			t.Fatalf("the groups are %v", g)
		}
		return nil
	})
}

// closed waits until no server listens on the port.
func closed(t *testing.T, port int) {
	t.Helper()
	testkit.Until(t, time.Minute, 20*time.Millisecond, func() error {
		c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			return nil
		}
		return fail.New(fail.NotReady, "a listener answers at %s: %v", c.RemoteAddr(), c.Close())
	})
}

// server runs Attend until stop is called.
func (s *site) server(t *testing.T) (b *Board, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	b = s.newBoard()
	b.c.Tick = 10 * time.Millisecond
	ended := make(chan error, 1)
	go func() { ended <- b.Attend(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		testkit.Must(t, <-ended)
	})
	t.Cleanup(stop)
	return b, stop
}

// answersFor reports whether a board answers a cluster's autoscaler.
func (b *Board) answersFor(name string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, yes := b.answering[name]
	return yes
}

// TestAnswering: one of two servers answers a cluster's autoscaler, according to its document and with the cluster's certificates; if it stops, the other
// one does; a new port in the document, or none, takes effect.
func TestAnswering(t *testing.T) {
	s := newSite(t)
	port, other := testkit.FreePort(t), testkit.FreePort(t)
	rec := s.scaling(t, "demo", port)
	one, stopOne := s.server(t)
	client := s.autoscaler(t, rec, port)
	s.answered(t, client)
	two, stopTwo := s.server(t)
	// The cluster was never made: while apply has more to do, the autoscaler changes nothing.
	_, err := client.NodeGroupIncreaseSize(t.Context(), &externalgrpc.NodeGroupIncreaseSizeRequest{Id: "a", Delta: 1})
	if status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "has not come up yet") {
		t.Errorf("on a cluster that is not there: %v", err)
	}
	all := testkit.Value(s.store.Duties(t.Context(), "demo"))(t)
	if len(all) != 1 || all[0].Kind != operate.Autoscale || all[0].Holder == "" || all[0].Outcome != store.DutyDone || all[0].Failures != 0 ||
		!strings.Contains(all[0].Message, "127.0.0.1:"+strconv.Itoa(port)+": a") {
		t.Errorf("the duties are %+v", all)
	}

	rec = s.scaling(t, "demo", other)
	client = s.autoscaler(t, rec, other)
	s.answered(t, client)
	closed(t, port)

	holder, stop, left := one, stopOne, two
	if two.answersFor("demo") {
		holder, stop, left = two, stopTwo, one
	}
	if left.answersFor("demo") {
		t.Error("both answer")
	}
	stop()
	if holder.answersFor("demo") {
		t.Error("a stopped server answers")
	}
	testkit.Until(t, time.Minute, 20*time.Millisecond, func() error {
		if !left.answersFor("demo") {
			return fail.New(fail.NotReady, "no answer")
		}
		return nil
	})
	s.answered(t, s.autoscaler(t, rec, other))

	s.scaling(t, "demo", 0)
	closed(t, other)
	testkit.Until(t, time.Minute, 20*time.Millisecond, func() error {
		if all, err := s.store.Duties(t.Context(), ""); err != nil || len(all) > 0 {
			return fail.New(fail.NotReady, "%+v, %v", all, err)
		}
		return nil
	})
	s.scaling(t, "demo", port)
	s.answered(t, s.autoscaler(t, rec, port))
	testkit.Must(t, s.store.DeleteCluster(t.Context(), rec.ID))
	closed(t, port)
	stopOne()
	stopTwo()
}

// TestSamePort: one of two clusters with the same port is answered, and the other one's duty reports why it is not.
func TestSamePort(t *testing.T) {
	s := newSite(t)
	port := testkit.FreePort(t)
	demo := s.scaling(t, "demo", port)
	_, stop := s.server(t)
	s.answered(t, s.autoscaler(t, demo, port))
	s.scaling(t, "harbour", port)
	var d store.Duty
	testkit.Until(t, time.Minute, 20*time.Millisecond, func() error {
		all, err := s.store.Duties(t.Context(), "harbour")
		if err != nil || len(all) != 1 || all[0].Outcome == "" {
			return fail.New(fail.NotReady, "%+v, %v", all, err)
		}
		d = all[0]
		return nil
	})
	if d.Outcome != store.DutyFailed || d.Failures < 1 || !strings.Contains(d.Message, fmt.Sprintf("port %d on this server is another cluster's", port)) {
		t.Errorf("%+v", d)
	}
	s.answered(t, s.autoscaler(t, demo, port))
	free := testkit.FreePort(t) // the corrected port is noticed after the pause
	s.scaling(t, "harbour", free)
	s.answered(t, s.autoscaler(t, testkit.Value(s.store.Cluster(t.Context(), "harbour"))(t), free))
	log := testkit.Value(s.store.Audit(t.Context(), store.AuditQuery{Who: Unattended, Cluster: "harbour"}))(t)
	if len(log) != 1 || log[0].Action != "unattended autoscale" || !strings.HasPrefix(log[0].Outcome, "failed: ") {
		t.Errorf("the audit has %+v", log)
	}
	stop()
	closed(t, port)
}

// TestAnswerLost: a server stops answering if another one has taken over the duty.
func TestAnswerLost(t *testing.T) {
	s := newSite(t)
	port := testkit.FreePort(t)
	rec := s.scaling(t, "demo", port)
	b := s.newBoard()
	b.c.Tick, b.ttl = time.Hour, 300*time.Millisecond
	d := testkit.Value(s.store.TakeDuty(t.Context(), "demo", operate.Autoscale, time.Millisecond))(t)
	ended := make(chan error, 1)
	go func() { _, err := b.answer(t.Context(), d); ended <- err }()
	s.answered(t, s.autoscaler(t, rec, port))
	testkit.Must(t, s.store.DropDuty(t.Context(), "demo", operate.Autoscale))
	testkit.Fails(t, <-ended, fail.Conflict, "another server")
	closed(t, port)
}
