package serving

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/server"
	"github.com/naupegos/naupegos/internal/server/access"
	"github.com/naupegos/naupegos/internal/store"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestIDsOverTheNetwork: the API plans no cluster under the ID of another one, or of a destroyed one of its name.
func TestIDsOverTheNetwork(t *testing.T) {
	w := newWorld(t)
	token, _, err := access.NewToken(t.Context(), w.store, "ann", server.Admin, "", time.Hour)
	testkit.Must(t, err)
	gone := testkit.Value(w.store.CreateCluster(t.Context(), store.Cluster{Name: "ferry", Provider: "metal"}))(t).ID
	testkit.Must(t, w.store.DeleteCluster(t.Context(), gone))
	foreign := testkit.Value(w.store.Cluster(t.Context(), foreignCluster))(t).ID
	document := strings.ReplaceAll(ownDocument, ownCluster, "ferry")
	for id, want := range map[string]struct {
		code int
		says string
	}{
		gone: {409, "belonged to a cluster that was destroyed"}, foreign: {400, "is no ID of the cluster ferry"}, "../x": {400, "is no ID of the cluster ferry"},
		"ferry-00000000": {403, "not enough machines"}, "": {403, "not enough machines"}, // these IDs are free: planning goes on
	} {
		body := testkit.Value(json.Marshal(map[string]string{"verb": "apply", "document": document, "clusterID": id}))(t)
		a := w.ask(server.Mount{}, "POST", "/api/v1/plans", string(body), token)
		if a.code != want.code || !strings.Contains(a.body, want.says) {
			t.Errorf("%q: %d %s", id, a.code, a.body)
		}
	}
}
