package notify

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/naupegos/naupegos/internal/testkit"
)

// hostile is text that a tenant chose: calls, links, formatting, functions, controls.
const hostile = "<!channel> <!here> @everyone @channel <@U123> <at>Ann</at> <https://evil.example|Naupegos> [x](https://evil.example) *b* _i_ ~s~ `c` & {{DATE(2017-02-14T06:08:39Z,SHORT)}} ${x} \"quoted\" \\ \x1b[31m\r\nnext\u202eline <script>"

func hostileMessage() *Message {
	m, _ := (&need{key: "1/health", event: Health, cluster: "demo", state: "unhealthy", shown: "unhealthy", text: "Cluster demo is unhealthy: " + hostile, hint: "naupegos status demo; " + hostile, path: "/ui/clusters/demo"}).change(announced{})
	m.Summary, m.Hint = line(m.Summary), line(m.Hint)
	return message([]Message{m}, time.Unix(1700000000, 0).UTC(), "https://boot.example.org/")
}

// TestFormats compares the bodies with golden files, and makes sure that foreign text does nothing in them.
func TestFormats(t *testing.T) {
	for name := range formats {
		body := testkit.Value((&sealed{Webhook: Webhook{Format: name}}).encode(hostileMessage()))(t)
		var v any
		testkit.Must(t, json.Unmarshal(body, &v))
		testkit.Golden(t, name+".json", append(testkit.Value(json.MarshalIndent(v, "", "  "))(t), '\n'))
		if strings.ContainsAny(string(body), "\x1b\r\u202e") || strings.Contains(string(body), `\r`) || strings.Contains(string(body), `\n`+"next") {
			t.Errorf("%s: control characters: %q", name, body)
		}
	}
	text := slack(hostileMessage()).(map[string]any)["text"].(string)
	if strings.Contains(text, "<!") || strings.Contains(text, "<@") || strings.Contains(text, "@everyone") || strings.Contains(text, "<https://evil") {
		t.Errorf("Slack would act on %q", text)
	}
	if !strings.HasSuffix(text, "\n<https://boot.example.org/ui/clusters/demo|Open>") {
		t.Errorf("the link is missing: %q", text)
	}
	card := fmt.Sprint(teams(hostileMessage()))
	if strings.Contains(card, "TextBlock") && !strings.Contains(card, "RichTextBlock") || strings.Contains(card, "{{") {
		t.Errorf("Teams would act on %q", card)
	}
}

// TestSizes: the largest messages stay within the receivers' limits.
func TestSizes(t *testing.T) {
	for _, unit := range []string{"x", "\"", "&", "🔴", "\u4e16", "@"} {
		var all []Message
		text := line(strings.Repeat(unit, 100_000))
		if n := len([]rune(text)); n != mostText {
			t.Errorf("a line of %q has %d characters", unit, n)
		}
		for i := range 500 {
			all = append(all, Message{Event: Health, State: "unhealthy", Cluster: fmt.Sprint("c", i), Summary: text, Hint: text, Link: "/ui/"})
		}
		for _, m := range []*Message{message(all[:1], time.Now(), "https://x"), message(all[1:], time.Now(), "https://x")} {
			for name := range formats {
				body := testkit.Value((&sealed{Webhook: Webhook{Format: name}}).encode(m))(t)
				if len(body) > 28<<10 && name == "teams" || len(body) > 60<<10 {
					t.Errorf("%s of %q: %d bytes", name, unit, len(body))
				}
			}
			is := slack(m).(map[string]any)
			if n := len(utf16.Encode([]rune(is["text"].(string)))); n > 40_000 {
				t.Errorf("Slack's text of %q: %d characters", unit, n)
			}
			var blocks []struct{ Text struct{ Text string } }
			testkit.Must(t, json.Unmarshal(testkit.Value(json.Marshal(is["blocks"]))(t), &blocks))
			for _, b := range blocks {
				if n := len([]rune(b.Text.Text)); n > 3000 || n == 0 || len(blocks) > 50 {
					t.Errorf("Slack's block of %q: %d characters, %d blocks", unit, n, len(blocks))
				}
			}
		}
	}
	m := message(append([]Message{}, Message{Event: Health, State: "healthy", Cluster: "a"}, Message{Event: Store, State: open}, Message{Event: Failed, State: open, Cluster: "b"}), time.Now(), "")
	if m.Event != "several" || m.Events[0].Event != Store || m.Events[2].State != "healthy" || m.Summary != "3 changes in 2 clusters, 2 of them need a person" || m.Link != "" {
		t.Errorf("%+v", m)
	}
}

// TestPathless: errors lose the paths of the server, and keep addresses.
func TestPathless(t *testing.T) {
	for in, want := range map[string]string{
		"open /var/lib/naupegos/server/keys/id: permission denied": "open [a path of the server]: permission denied",
		`read "/etc/naupegos/x.yaml" (and /root/.ssh/id_ed25519)`:  `read "[a path of the server]" (and [a path of the server])`,
		"Get https://10.0.0.1:6443/readyz: refused":                "Get https://10.0.0.1:6443/readyz: refused",
		"dial unix:///run/containerd/containerd.sock":              "dial unix://[a path of the server]",
		"2/3 nodes are Ready, at 50 % / nothing":                   "2/3 nodes are Ready, at 50 % / nothing",
	} {
		if got := pathless(in); got != want {
			t.Errorf("%s: %s", in, got)
		}
	}
	if got := command("naupegos apply -f /home/ann/demo.yaml"); got != "naupegos apply -f FILE" {
		t.Error(got)
	}
}
