package operate

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/cluster/parts"
)

// aboutCases has a request for every verb, and for every option that a title shows.
func aboutCases() []struct {
	asked          Asked
	title, subject string
} {
	return []struct {
		asked          Asked
		title, subject string
	}{
		{Asked{Verb: "apply", Document: "kind: Cluster", From: "demo.yaml", ClusterID: "demo-0a"}, "apply", ""},
		{Asked{Verb: "apply", Only: []parts.Part{parts.Addons, parts.Test}}, "apply --only addons,test", "addons,test"},
		{Asked{Verb: "apply", NewBundle: true}, "apply --consent other-bundle", ""},
		{Asked{Verb: "destroy", KeepVolumes: true}, "destroy --keep-volumes", ""},
		{Asked{Verb: "reset", Machine: "demo-a-1"}, "reset demo-a-1", "demo-a-1"},
		{Asked{Verb: "upgrade", Upgrade: &Upgrade{To: "v1.37.2", PauseAfter: "demo-cp-1"}}, "upgrade --to v1.37.2 --pause-after demo-cp-1", ""},
		{Asked{Verb: "upgrade", Upgrade: &Upgrade{Finish: true}}, "upgrade --finish", ""},
		{Asked{Verb: "upgrade", Upgrade: &Upgrade{Back: true}}, "upgrade --back", ""},
		{Asked{Verb: "upgrade", Upgrade: &Upgrade{Pool: "gpu"}}, "upgrade --pool gpu", "gpu"},
		{Asked{Verb: "node add", Grow: &Grow{Pool: "general", Count: 2}}, "node add --pool general --count 2", "general"},
		{Asked{Verb: "node add", Grow: &Grow{ControlPlane: true, Count: 2}}, "node add --control-plane --count 2", "control plane"},
		{Asked{Verb: "node remove", Machines: []string{"demo-general-1"}}, "node remove demo-general-1", "demo-general-1"},
		{Asked{Verb: "node replace", Machines: []string{"demo-cp-1", "demo-cp-2"}}, "node replace demo-cp-1 demo-cp-2", "demo-cp-1, demo-cp-2"},
		{Asked{Verb: "node cordon", Machines: []string{"a-1"}}, "node cordon a-1", "a-1"},
		{Asked{Verb: "node uncordon", Machines: []string{"a-1"}}, "node uncordon a-1", "a-1"},
		{Asked{Verb: "node drain", Machines: []string{"a-1"}, Drain: &Drain{Force: true, DeleteEmptyDir: true}}, "node drain a-1 --delete-emptydir-data --force", "a-1"},
		{Asked{Verb: "machine start"}, "machine start", ""},
		{Asked{Verb: "machine stop", Machines: []string{"a-1"}}, "machine stop a-1", "a-1"},
		{Asked{Verb: "machine kill", Machines: []string{"a-1"}}, "machine kill a-1", "a-1"},
		{Asked{Verb: "machine reboot", Machines: []string{"a-1"}}, "machine reboot a-1", "a-1"},
		{Asked{Verb: "renew"}, "renew", ""},
		{Asked{Verb: "repair", Machine: "a-2"}, "repair a-2", "a-2"},
		{Asked{Verb: "update", Update: &Update{RebootOnly: true, Now: true, Pool: "general"}}, "update --reboot-only --pool general --now", "general"},
		{Asked{Verb: "update", Update: &Update{Machine: "a-1"}}, "update --machine a-1", "a-1"},
		{Asked{Verb: "certs rotate", Rotate: &Rotate{All: true, Hold: true}}, "certs rotate --all --hold", ""},
		{Asked{Verb: "certs rotate", Rotate: &Rotate{Authorities: true, ServiceAccount: true, SSH: true, Encryption: true}},
			"certs rotate --authorities --service-account --ssh --encryption", ""},
		{Asked{Verb: "certs rotate", Rotate: &Rotate{CloudCredential: true, Unbounded: true}}, "certs rotate --cloud-credential --without-access-rules", ""},
		{Asked{Verb: "etcd recover", Machine: "demo-cp-1"}, "etcd recover --from demo-cp-1", "demo-cp-1"},
		{Asked{Verb: "backup create"}, "backup create", ""},
		{Asked{Verb: "backup prune"}, "backup prune", ""},
		{Asked{Verb: "backup rehearse", Backup: "b1", Seconds: 60}, "backup rehearse b1", "b1"},
		{Asked{Verb: "backup restore", Backup: "b1"}, "backup restore --from b1", "b1"},
		{Asked{Verb: "backup restore", Backup: "b1", Restore: &Restore{New: true, Of: "old"}}, "backup restore --from b1 --new-identity --of old", "b1"},
		{Asked{Verb: "backup restore", Backup: "b1", Restore: &Restore{Living: true}}, "backup restore --from b1 --consent replace-data", "b1"},
		{Asked{Verb: "import", Import: &Import{From: "10.0.0.5", Identity: "/root/key", KnownHosts: "secret?"}}, "import --from 10.0.0.5", "10.0.0.5"},
		{Asked{Verb: "release", Taken: "sha256:0"}, "release", ""},
		{Asked{Verb: "test", Seconds: 30}, "test", ""},
	}
}

// TestAbout describes a request of every verb.
func TestAbout(t *testing.T) {
	left := Verbs()
	for _, c := range aboutCases() {
		left = slices.DeleteFunc(left, func(v string) bool { return v == c.asked.Verb })
		if got := c.asked.About(); got != (About{c.asked.Verb, c.title, c.subject}) {
			t.Errorf("%+v, want %q of %q", got, c.title, c.subject)
		}
	}
	if len(left) > 0 {
		t.Errorf("verbs without a title in this test: %v", left)
	}
}

// TestEveryOptionIsArgued: each option that some verb takes is shown in titles, or left out on purpose; and every option that is shown has a case above.
func TestEveryOptionIsArgued(t *testing.T) {
	argued := map[string]bool{}
	for _, o := range arguments {
		argued[o.option] = o.argue != nil
	}
	for name, v := range verbs {
		for _, option := range strings.Fields(v.takes) {
			if _, known := argued[option]; !known {
				t.Errorf("%s takes %s: arguments does not say how a title shows it", name, option)
			}
		}
	}
	shown := map[string]bool{}
	for _, c := range aboutCases() {
		if c.title == c.asked.Verb {
			continue
		}
		is := reflect.ValueOf(c.asked)
		for i := range is.NumField() {
			option, _, _ := strings.Cut(is.Type().Field(i).Tag.Get("json"), ",")
			if argued[option] && !is.Field(i).IsZero() {
				shown[option] = true
				testFields(t, option, is.Field(i), c.title)
			}
		}
	}
	for option, is := range argued {
		if is && !shown[option] {
			t.Errorf("no case above shows %s", option)
		}
	}
}

// testFields: a title of a request grows with each flag that is set.
func testFields(t *testing.T, option string, v reflect.Value, title string) {
	t.Helper()
	if v.Kind() != reflect.Pointer {
		return
	}
	set := 0
	for i := range v.Elem().NumField() {
		if f := v.Elem().Field(i); f.Kind() == reflect.Bool && f.Bool() {
			set++
		}
	}
	if n := strings.Count(title, "--"); n < set {
		t.Errorf("%s has %d flags and its title %q shows %d", option, set, title, n)
	}
}

// TestTitlesAreBounded: what a client names does not make titles of any length, or of several lines.
func TestTitlesAreBounded(t *testing.T) {
	a := Asked{Verb: "node drain", Machines: slices.Repeat([]string{"machine\n-of-a-long-name"}, 1000)}
	if got := a.About(); len(got.Title) > 2*mostTitle || len(got.Subject) > 2*mostTitle || strings.Contains(got.Title, "\n") {
		t.Errorf("%d and %d bytes: %q", len(got.Title), len(got.Subject), got.Title)
	}
}

// TestThrough names the releases of an upgrade that is under way, whichever verb continues it.
func TestThrough(t *testing.T) {
	for _, c := range []struct {
		asked *Asked
		want  string
	}{
		{&Asked{Verb: "upgrade", Upgrade: &Upgrade{To: "v1.37.2"}}, "upgrade v1.36.4 → v1.37.2"},
		{&Asked{Verb: "upgrade", Upgrade: &Upgrade{Finish: true}}, "upgrade --finish v1.36.4 → v1.37.2"},
		{&Asked{Verb: "apply"}, "apply, upgrade v1.36.4 → v1.37.2"},
	} {
		if got := c.asked.through(c.asked.About(), "v1.36.4 → v1.37.2").Title; got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
	if got := (&Session{verb: Autoscale}).about(); got.Title != Autoscale {
		t.Errorf("a session without a request is %+v", got)
	}
}
