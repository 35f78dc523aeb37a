package cli

import (
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/naupegos/naupegos/internal/testkit"
)

// The commands that leave no trace in the audit, and why that is right. All others are in testdata/script/audit_commands.txtar, which runs them.
var traceless = map[string]string{
	"they read, and show no secret": "backup list,backup rehearse,backup show,certs issuer,certs list,describe,diff,doctor,document,events,explain,history,image upload," +
		"init,logs,node list,plan,schema,server audit,server audit export,server audit key,server audit verify,server credential list,server follow list,server follow show,server session list," +
		"server status,server token list,server webhook list,status,support,top,users,validate,version",
	"they change a cluster: its history has them": "apply,autoscale,backup create,backup prune,backup restore,backup volumes,certs rotate,destroy,etcd recover,import,node add," +
		"node cordon,node drain,node remove,node replace,node uncordon,release,renew,repair,reset,test,update,upgrade",
	"they ask a server, which notes its requests": "get-token,login,logout,machine approve,machine assign,machine bmc,machine forget,machine install,machine journal,machine kill," +
		"machine label,machine list,machine lock-token create,machine lock-token list,machine lock-token revoke,machine locks,machine maintenance,machine name,machine power," +
		"machine reboot,machine reinstall,machine reject,machine schedule,machine show,machine start,machine stop,machine strategy,machine unassign,machine unlock",
	"they serve, and note requests": "server,ui",
	"they use files of this host alone": "bundle add chart,bundle add image,bundle add manifest,bundle build,bundle export,bundle import,bundle inspect,bundle list,bundle pull,bundle remove," +
		"bundle verify,completion bash,completion fish,completion powershell,completion zsh,image build,image discovery,image system,server import-matchbox,use",
}

// TestEveryCommandLeavesATrace: each command either touches no credential, token, kubeconfig, handover or store, or the script has it, with the two entries
// of the audit that it leaves: before it begins, and its outcome.
func TestEveryCommandLeavesATrace(t *testing.T) {
	script := string(testkit.Value(os.ReadFile("testdata/script/audit_commands.txtar"))(t))
	listed := map[string]bool{}
	for why, names := range traceless {
		for name := range strings.SplitSeq(names, ",") {
			if listed[name] {
				t.Errorf("%s is listed twice", name)
			}
			listed[name] = true
			if why == "" {
				t.Errorf("nothing says why %s leaves no trace", name)
			}
		}
	}
	var noting []string
	for _, name := range leaves(New(&App{Out: io.Discard, Err: io.Discard})) {
		if listed[name] {
			delete(listed, name)
			continue
		}
		noting = append(noting, name)
	}
	for _, gap := range traceGaps(script, noting) {
		t.Errorf("it is not among the commands that touch no secret, and no line of the script shows this: %s", gap)
	}
	for name := range listed {
		t.Errorf("there is no command %s", name)
	}
	if len(noting) < 15 {
		t.Errorf("%d commands leave a trace", len(noting))
	}
	for name, lines := range map[string]string{ // whose entries resemble another command's
		"ssh": "ssh to ", "ssh-config": "ssh-config ", "store backup": "store backup store.age", "store restore": "store restore store.age",
		"server backup": "store backup server.age", "server restore": "store restore server.age",
	} {
		without := regexp.MustCompile(`(?m)^stdout '`+lines+`.*\n`).ReplaceAllString(script, "")
		if gaps := traceGaps(without, noting); len(gaps) != 2 || !strings.Contains(gaps[0], "begins") || !strings.Contains(gaps[1], "outcome") {
			t.Errorf("without the entries of %s, the script lacks %q", name, gaps)
		}
	}
}

// traceGaps returns which commands a script does not run, and which of their entries in the audit it does not compare. Each line counts for one command.
func traceGaps(script string, names []string) (gaps []string) {
	taken := map[int]bool{}
	for _, name := range names {
		entry := strings.Replace(name, "server backup", "store backup", 1)
		entry = strings.Replace(entry, "server restore", "store restore", 1)
		for _, want := range []struct{ what, line string }{
			{"is run", `(?m)^(exec|exits [0-9|]+) naupegos ` + name + `( |$)`},
			{"begins", `(?m)^stdout '` + entry + ` .*\+begun'$`},
			{"has an outcome", `(?m)^stdout '` + entry + ` .*(done|refused|failed)[^']*'$`},
		} {
			found := false
			for _, at := range regexp.MustCompile(want.line).FindAllStringIndex(script, -1) {
				if found = !taken[at[0]]; found {
					taken[at[0]] = true
					break
				}
			}
			if !found {
				gaps = append(gaps, name+" "+want.what)
			}
		}
	}
	return gaps
}

// leaves returns the names of all commands that can run.
func leaves(root *cobra.Command) (names []string) {
	for _, c := range root.Commands() {
		if c.Hidden || c.Name() == "help" || c.Name() == "options" {
			continue
		}
		names = append(names, leaves(c)...)
		if !c.HasSubCommands() || c.Runnable() && !c.DisableFlagsInUseLine {
			names = append(names, strings.TrimPrefix(c.CommandPath(), "naupegos "))
		}
	}
	slices.Sort(names)
	return names
}
