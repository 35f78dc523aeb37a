package order

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/testkit"
)

func good() Order {
	sum := strings.Repeat("a", 64)
	b := Blob{Path: "/assets/systems/x/root.zst", SHA256: sum, Size: 10, RawSHA256: sum, RawSize: 100}
	return Order{Schema: Schema, UUID: "b7f5f93a-b029-475f-b3a4-479ba198cb8a", Hostname: "m-1", System: System{ID: "sha256:" + sum, Root: b, Head: b},
		Disk: Disk{Serial: "S1"}, Data: []string{"D1"}, SSHKeys: []string{"ssh-ed25519 AAAA ann"},
		Network: []Interface{{MAC: "52:54:00:00:00:01", Addresses: []string{"10.0.0.5/24"}, Gateway: "10.0.0.1", DNS: []string{"10.0.0.2"}}}}
}

func TestParse(t *testing.T) {
	o := good()
	data := testkit.Value(json.Marshal(o))(t)
	again := testkit.Value(Parse(data))(t)
	if again.Digest() != o.Digest() || again.RebootGroup() != Machines || again.Begin() != Reboot || again.Trial() != UsualTrial || again.Slot() != SlotSize {
		t.Errorf("%+v", again)
	}
	o.System.Root.RawSize = SlotSize + 1
	if o.Slot() != SlotSize+1<<20 || o.Digest() == again.Digest() {
		t.Errorf("%d, %s", o.Slot(), o.Digest())
	}
	for name, c := range map[string]struct {
		change func(o *Order)
		words  string
	}{
		"another version":          {func(o *Order) { o.Schema = 2 }, "same version"},
		"no machine":               {func(o *Order) { o.UUID = "../x" }, "names no machine"},
		"host name":                {func(o *Order) { o.Hostname = "a\nb" }, "host name"},
		"no ID":                    {func(o *Order) { o.System.ID = "sha256:x" }, "no ID"},
		"system on a data disk":    {func(o *Order) { o.Data = []string{"S1"} }, "never touched"},
		"negative size":            {func(o *Order) { o.Disk.MinBytes = -1 }, "below zero"},
		"unknown beginning":        {func(o *Order) { o.First = "explode" }, "explode"},
		"group":                    {func(o *Order) { o.Group = "a/b" }, "group"},
		"no time for a trial":      {func(o *Order) { o.TrialSeconds = 1 }, "tried for"},
		"two lines in one key":     {func(o *Order) { o.SSHKeys = []string{"a\nb"} }, "single line"},
		"a path elsewhere":         {func(o *Order) { o.System.Root.Path = "/assets/../secret" }, "path"},
		"a whole address":          {func(o *Order) { o.System.Root.Path = "http://evil/x" }, "path"},
		"no checksum":              {func(o *Order) { o.System.Head.SHA256 = "" }, "checksum"},
		"no size":                  {func(o *Order) { o.System.Head.RawSize = 0 }, "size"},
		"no MAC address":           {func(o *Order) { o.Network[0].MAC = "x" }, "MAC"},
		"address without a prefix": {func(o *Order) { o.Network[0].Addresses = []string{"10.0.0.1"} }, "prefix"},
		"interface of no address":  {func(o *Order) { o.Network[0].Addresses = nil }, "no address"},
		"name server":              {func(o *Order) { o.Network[0].DNS = []string{"x;y"} }, "address"},
		"too many":                 {func(o *Order) { o.Data = make([]string, maxList+1) }, "more than"},
	} {
		o := good()
		c.change(&o)
		_, err := Parse(testkit.Value(json.Marshal(o))(t))
		t.Run(name, func(t *testing.T) { testkit.Fails(t, err, fail.Invalid, c.words) })
	}
	for name, bad := range map[string]string{"nothing": "", "more behind": string(data) + "{}", "unknown field": `{"schema":1,"explode":true}`, "large": strings.Repeat(" ", MaxSize+1)} {
		_, err := Parse([]byte(bad))
		t.Run(name, func(t *testing.T) { testkit.Fails(t, err, fail.Invalid) })
	}
}

// FuzzParse: an accepted order is accepted again unchanged, and contains no path or line that leads elsewhere.
func FuzzParse(f *testing.F) {
	data, err := json.Marshal(good())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(`{"schema":1}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		o, err := Parse(data)
		if err != nil {
			return
		}
		raw := testkit.Value(json.Marshal(o))(t)
		if again := testkit.Value(Parse(raw))(t); again.Digest() != o.Digest() {
			t.Errorf("%s is another order when it is read again", data)
		}
		if strings.Contains(o.System.Root.Path, "..") && strings.Contains("/"+o.System.Root.Path+"/", "/../") || strings.ContainsAny(strings.Join(o.SSHKeys, ""), "\n\r\x00") {
			t.Errorf("%s", data)
		}
		if o.Slot() < o.System.Root.RawSize || o.Trial() <= 0 {
			t.Errorf("%s: slot %d, trial %s", data, o.Slot(), o.Trial())
		}
	})
}
