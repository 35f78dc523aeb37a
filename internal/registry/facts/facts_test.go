package facts

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/testkit"
)

// legacy is a body of the older system's machines.
const legacy = `{"boot-info": {"uuid": "B7F5F93A-B029-475F-B3A4-479BA198CB8A", "mac": "52-54-00-E8-32-5B", "random-id": "618e2763-e3ea-4f6a-b6e5-93d1bf7ab0c8"},
 "interfaces": [{"ipv4": "127.0.0.1", "cidrv4": "127.0.0.1/8", "netmask": 8, "mac": "", "name": "lo", "gateway": "172.20.0.1", "fqdn": []},
  {"ipv4": "172.20.0.65", "cidrv4": "172.20.0.65/21", "netmask": 21, "mac": "52:54:00:e8:32:5b", "name": "eth0", "gateway": "172.20.0.1", "fqdn": ["a.example.org"]}],
 "disks": [{"size-bytes": 21474836480, "path": "/dev/sda"}],
 "lldp": {"is_file": true, "data": {"interfaces": [{"name": "eth0", "chassis": {"id": "28:f1:0e:12:20:00", "name": "rkt"}, "port": {"id": "fe:54:00:e8:32:5b"}}]}},
 "ignition-journal": ["-- Logs begin", "a<script>\u0007"]}`

func TestParse(t *testing.T) {
	d := testkit.Value(Parse([]byte(legacy)))(t)
	if d.Boot.UUID != "b7f5f93a-b029-475f-b3a4-479ba198cb8a" || d.Boot.MAC != "52:54:00:e8:32:5b" || len(d.MACs()) != 1 || d.BootInterface().Name != "eth0" {
		t.Errorf("%+v", d.Boot)
	}
	if d.ChassisOf("eth0") != "28:f1:0e:12:20:00" || d.ChassisOf("eth1") != "28:f1:0e:12:20:00" || d.Journal[1] != "a<script>" {
		t.Errorf("%+v", d)
	}
	testkit.Value(Parse([]byte(strings.Replace(legacy, `[{"size-bytes": 21474836480, "path": "/dev/sda"}]`, "null", 1))))(t)
	for change, words := range map[[2]string]string{
		{`"disks"`, `"disk"`}: "disks", {"B7F5F93A-", "B7F5F93A"}: "UUID", {"B7F5F93A-B029-475F-B3A4-479BA198CB8A", "03000200-0400-0500-0006-000700080009"}: "many",
		{"52-54-00-E8-32-5B", "52-54-00-E8-32"}: "MAC", {"52-54-00-E8-32-5B", "53-54-00-E8-32-5B"}: "MAC", {`"172.20.0.65"`, `"172.20.0"`}: "IPv4",
		{"/21", "/99"}: "network", {`"618e2763-e3ea-4f6a-b6e5-93d1bf7ab0c8"`, `"a/b"`}: "random-id", {"21474836480", "-1"}: "size", {`[{"size`, `[[{"size`}: "JSON",
		{"21474836480", `"x"`}: "form", {`"random-id": "618e2763-e3ea-4f6a-b6e5-93d1bf7ab0c8"`, `"x": 1`}: "random-id",
	} {
		_, err := Parse([]byte(strings.Replace(legacy, change[0], change[1], 1)))
		testkit.Fails(t, err, fail.Invalid, words)
	}
	_, err := Parse([]byte(strings.Repeat(" ", MaxBody+1)))
	testkit.Fails(t, err, fail.Invalid, "bytes")
}

func TestEnrolment(t *testing.T) {
	const uuid = "b7f5f93a-b029-475f-b3a4-479ba198cb8a"
	key, other := testkit.Value(NewKey())(t), testkit.Value(NewKey())(t)
	e := Enrolment{Request: testkit.Value(NewRequest(key, uuid))(t)}
	body := []byte("body")
	sig := testkit.Value(Sign(key, body))(t)
	_, print, err := e.Key(uuid, body, sig)
	if err != nil || print != Fingerprint(key.Public()) {
		t.Fatal(print, err)
	}
	_, _, err = e.Key(uuid, []byte("another"), sig)
	testkit.Fails(t, err, fail.Unauthorized)
	_, _, err = e.Key(uuid, body, testkit.Value(Sign(other, body))(t))
	testkit.Fails(t, err, fail.Unauthorized)
	_, _, err = e.Key(strings.Replace(uuid, "b7", "b8", 1), body, sig)
	testkit.Fails(t, err, fail.Invalid, "this machine")
	e.Request = "nonsense"
	_, _, err = e.Key(uuid, body, sig)
	testkit.Fails(t, err, fail.Invalid)
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(legacy))
	f.Add([]byte(`{"boot-info":{},"interfaces":null,"disks":null,"lldp":{},"ignition-journal":null}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		d, err := Parse(data)
		if err != nil {
			if fail.KindOf(err) != fail.Invalid {
				t.Fatal(err)
			}
			return
		}
		again, err := Parse(testkit.Value(json.Marshal(d))(t)) // accepted bodies have one form
		if err != nil || again.Boot != d.Boot || len(again.MACs()) != len(d.MACs()) {
			t.Fatalf("%+v, %v", again, err)
		}
	})
}

func FuzzSelector(f *testing.F) {
	f.Add("uuid=b7f5f93a-b029-475f-b3a4-479ba198cb8a&mac=52-54-00-e8-32-5b&os=installed")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ParseSelector(text)
		if err != nil {
			if fail.KindOf(err) != fail.Invalid {
				t.Fatal(err)
			}
			return
		}
		if s.String() == "" || s.UUID != "" && len(s.UUID) != 36 || s.MAC != "" && len(s.MAC) != 17 {
			t.Fatalf("%+v", s)
		}
	})
}
